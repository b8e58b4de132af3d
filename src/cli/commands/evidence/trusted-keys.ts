/** The public keys that a command verifies with: from files of the person's own, or those of the server's key file. */
import type { KeyObject } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fromKeyList, readPublicKeys } from '../../../contract/evidence/integrity/public-keys.ts';
import type { Session } from '../../connection/session.ts';
import { CliFailure } from '../../terminal/failure.ts';

export interface TrustedKeys {
  keys: KeyObject[];
  /** Whether the person brought them. Otherwise they come from the server that is being verified. */
  pinned: boolean;
}

export function keysFromFiles(files: readonly string[]): KeyObject[] {
  return files.flatMap((file) => {
    try {
      return readPublicKeys(readFileSync(file, 'utf8'));
    } catch (error) {
      throw new CliFailure('usage', `The public key file ${file} cannot be used`, {
        why: error instanceof Error ? error.message : String(error),
        remedy: 'Give a file as `slipway keys public` writes it: PEM or JSON.',
        cause: error,
      });
    }
  });
}

export async function trustedKeys(session: Session, files: readonly string[]): Promise<TrustedKeys> {
  if (files.length > 0) return { keys: keysFromFiles(files), pinned: true };
  const { keys } = await session.call('key-list', {});
  // The others are rows of the database, which may be what somebody changed.
  return { keys: fromKeyList(keys.filter(({ held }) => held)), pinned: false };
}
