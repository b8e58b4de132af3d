/**
 * Every line of the threat model in SECURITY.md names a test that shows it, and every attack is
 * named by a line.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { page, withThreatModel } from '../../scripts/generate-threat-model.ts';
import type { Attack } from './support/attack.ts';
import { attackers } from './threat-model.ts';

const root = join(import.meta.dirname, '../..');
const lines = attackers.flatMap(({ name, can, cannot }) =>
  [...can, ...cannot].map((line) => [`${name}: ${line.says}`, line] as const),
);

test.for(lines)('%s', ([, { shown_by }]) => {
  expect(shown_by.length).toBeGreaterThan(0);
  for (const { file, title } of shown_by) expect(readFileSync(join(root, file), 'utf8'), file).toContain(title);
});

const isAttack = (value: unknown): value is Attack =>
  typeof value === 'object' && value !== null && 'without' in value && 'succeeds' in value;

/** All attacks exported below this folder, each with its file. */
async function readExportedAttacks(): Promise<{ file: string; attack: Attack }[]> {
  const files = readdirSync(import.meta.dirname, { recursive: true, encoding: 'utf8' });
  const lists = files.filter((file) => /^[a-z-]+\/[a-z-]+\.ts$/.test(file) && dirname(file) !== 'support');
  const attacksByFile = await Promise.all(
    lists.map(async (file) => {
      const exported: Record<string, unknown> = await import(`./${file}`);
      const attacks = Object.values(exported).flat().filter(isAttack);
      return attacks.map((attack) => ({ file: `test/attacks/${file}`, attack }));
    }),
  );
  return attacksByFile.flat();
}

const attacks = await readExportedAttacks();

test('the threat model names every exported attack', () => {
  const namedAttacks = new Set(
    lines.flatMap(([, { shown_by }]) => shown_by.map(({ file, title }) => `${file} ${title}`)),
  );
  expect(attacks.length).toBeGreaterThan(40);
  expect(attacks.map(({ file, attack }) => `${file} ${attack.name}`).filter((each) => !namedAttacks.has(each))).toEqual(
    [],
  );
});

test('SECURITY.md matches the threat model (bin/run scripts/generate-threat-model.ts)', () => {
  const text = readFileSync(page, 'utf8');
  expect(text).toBe(withThreatModel(text));
});

test('the text of each defence that a counter-test removes occurs exactly once in its source file', () => {
  const edits = attacks.flatMap(({ attack }) => attack.without.map((edit) => ({ name: attack.name, ...edit })));
  const staleEdits = edits.filter(({ file, find }) => readFileSync(join(root, file), 'utf8').split(find).length !== 2);
  expect(staleEdits.map(({ name, file, find }) => `${name}: ${find} in ${file}`)).toEqual([]);
});
