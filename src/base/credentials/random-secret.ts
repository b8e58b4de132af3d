/** Generates secrets of 256 random bits. The database stores only their hashes. */
import { createHash, randomBytes } from 'node:crypto';

export const newSecret = (prefix: string): string => `${prefix}_${randomBytes(32).toString('base64url')}`;

/** 256 random bits cannot be guessed, so a plain hash is enough. */
export const hashSecret = (secret: string): Buffer => createHash('sha256').update(secret).digest();
