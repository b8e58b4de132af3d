/** Secrets that the server generates: 256 random bits, stored only as hashes. */
import { createHash, randomBytes } from 'node:crypto';

export const newSecret = (prefix: string): string => `${prefix}_${randomBytes(32).toString('base64url')}`;

/** A plain hash suffices for 256 random bits. */
export const hashSecret = (secret: string): Buffer => createHash('sha256').update(secret).digest();
