/**
 * The text that an agent signs to get a new credential from a restored server, which has no record
 * of the one that the agent holds.
 */

export interface ReissueFacts {
  node_instance_id: string;
  /** The SHA-256 of the credential that the agent holds, in hex. */
  credential_sha256: string;
  signed_at: string;
}

/**
 * Signed as canonical JSON. The server accepts a signature only once, and only near `signed_at`.
 * The purpose is unique, so a signature of any other text is refused.
 */
export const reissueBody = ({ node_instance_id, credential_sha256, signed_at }: ReissueFacts) => ({
  purpose: 'slipway-credential-reissue',
  node_instance_id,
  credential_sha256,
  signed_at,
});
