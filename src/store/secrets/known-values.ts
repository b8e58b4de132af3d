/**
 * Supplies the redactor of this replica with the values of all stored secrets, so that none of them reaches evidence or logs,
 * whichever machine prints it. Done at the start, and again when a fact says that a secret was set.
 */
import type { KeyRing } from '../../base/key-ring.ts';
import type { Log } from '../../base/log.ts';
import type { Database } from '../database.ts';
import type { EvidenceTail } from '../tail.ts';
import { openSecret } from './seal.ts';
import { allSecrets } from './secrets.ts';

/** A shorter line of a value is likely to be a word that means something elsewhere. */
const shortestLine = 8;

/** A value of several lines is printed line by line. */
export const printedForms = (value: string): string[] => {
  const lines = value.split(/\r?\n/).map((line) => line.trim());
  return [value, ...(lines.length > 1 ? lines.filter((line) => line.length >= shortestLine) : [])];
};

/** Returns the secrets that this server cannot open, with the key that is missing. */
export async function learnSecrets(db: Database, ring: KeyRing): Promise<{ name: string; kid: string }[]> {
  const rows = (await allSecrets(db)).map((row) => ({ row, opened: openSecret(ring, row) }));
  db.redact.learn(rows.flatMap(({ opened }) => (opened.ok ? printedForms(opened.value) : [])));
  return rows.flatMap(({ row: { name, kid }, opened }) => (opened.ok ? [] : [{ name, kid }]));
}

/** The redactor knows every stored secret before anything is launched. What cannot be decrypted is reported with the file to copy. */
export async function followSecrets(
  { db, key_ring: ring }: { db: Database; key_ring: KeyRing },
  tail: EvidenceTail,
  log: Log,
): Promise<void> {
  const unreadable = await learnSecrets(db, ring);
  if (unreadable.length > 0)
    log.error(
      { secrets: unreadable.map(({ name }) => name), keys: [...new Set(unreadable.map(({ kid }) => kid))] },
      `stored secrets cannot be decrypted: copy the key file of the server that stored them to ${ring.path}; launches that need them fail until then`,
    );
  tail.subscribe((fact) => {
    if (fact.kind !== 'secret.set') return;
    learnSecrets(db, ring).catch((error) => log.error({ error }, 'the redactor could not read the stored secrets'));
  });
}
