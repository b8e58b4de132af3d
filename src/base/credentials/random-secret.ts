/** Secrets that the server makes: long and random, stored as hashes only. */
import { createHash, randomBytes } from 'node:crypto';

export const newSecret = (prefix: string): string => `${prefix}_${randomBytes(32).toString('base64url')}`;

/** A plain hash is enough, because nobody can guess 256 random bits. */
export const hashSecret = (secret: string): Buffer => createHash('sha256').update(secret).digest();
