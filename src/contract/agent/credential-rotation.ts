/** What an agent signs with its key when it asks for a new credential. */
import { createHash } from 'node:crypto';

/** Signed as canonical JSON. It names the credential that is replaced, so a recorded one serves for no later rotation. */
export const rotationBody = ({ node_instance_id, credential }: { node_instance_id: string; credential: string }) => ({
  purpose: 'slipway-credential-rotation',
  node_instance_id,
  credential_sha256: createHash('sha256').update(credential).digest('hex'),
});
