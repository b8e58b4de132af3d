/** Loads the public keys to verify with, from the user's files or else from the server. */
import type { KeyObject } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fromKeyList, readPublicKeys } from '../../../contract/evidence/integrity/public-keys.ts';
import type { Session } from '../../connection/session.ts';
import { CliFailure } from '../../terminal/failure.ts';

export interface TrustedKeys {
  keys: KeyObject[];
  /**
   * True if the keys come from the user's files. The server under verification cannot forge those.
   */
  pinned: boolean;
}

export function readPublicKeyFiles(files: readonly string[]): KeyObject[] {
  return files.flatMap((file) => {
    try {
      return readPublicKeys(readFileSync(file, 'utf8'));
    } catch (error) {
      throw new CliFailure('usage', `Cannot use the public key file ${file}`, {
        why: error instanceof Error ? error.message : String(error),
        remedy: 'Give a PEM or JSON file as `slipway keys public` prints it.',
        cause: error,
      });
    }
  });
}

export async function loadTrustedKeys(session: Session, files: readonly string[]): Promise<TrustedKeys> {
  if (files.length > 0) return { keys: readPublicKeyFiles(files), pinned: true };
  const { keys } = await session.call('key-list', {});
  // Trusts only keys of the key file: someone may have tampered with the keys in the database.
  return { keys: fromKeyList(keys.filter(({ held }) => held)), pinned: false };
}
