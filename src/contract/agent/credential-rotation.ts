/** The text that an agent signs to request a new credential. */
import { createHash } from 'node:crypto';

/**
 * Signed as canonical JSON. The text includes a digest of the replaced credential, so a signature
 * cannot be replayed for a later rotation.
 */
export const rotationBody = ({ node_instance_id, credential }: { node_instance_id: string; credential: string }) => ({
  purpose: 'slipway-credential-rotation',
  node_instance_id,
  credential_sha256: createHash('sha256').update(credential).digest('hex'),
});
