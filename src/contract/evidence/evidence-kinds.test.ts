/** Tests that the registry lists and reserves every kind of evidence that the server writes. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { evidenceKinds, isReservedKind, originOf } from './evidence-kinds.ts';

const src = join(import.meta.dirname, '../..');
const sources = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .filter((name) => /\.(ts|sql)$/.test(name) && !name.includes('.test.') && !name.includes('testing/'))
  .map((name) => ({ name, text: readFileSync(join(src, name), 'utf8') }));

it('reserves every kind of the server', () => {
  expect(evidenceKinds.filter((kind) => !isReservedKind(kind))).toEqual([]);
  for (const kind of ['beat.refused', 'probe.answered', 'ping.answered', 'node.anything', 'proof.of_a_later_version'])
    expect(isReservedKind(kind), kind).toBe(true);
});

it('does not reserve the kinds that agents and other programs post', () => {
  for (const kind of ['agent_call_failed', 'command_ended', 'ingress.rejected', 'deploy.finished'])
    expect(isReservedKind(kind), kind).toBe(false);
});

/**
 * `Fact.kind` is typed, so only a statement that names the table directly could write an
 * unregistered kind.
 */
it('lists every file with a statement that writes evidence, and each sets the origin', () => {
  const writers = sources.filter(({ text }) => /insert into evidence\s*\(/i.test(text)).map(({ name }) => name);
  expect(writers.sort()).toEqual([
    'store/evidence/evidence.ts',
    'store/history/snapshots.ts',
    'store/transitions/bulk/verdict-pairs.ts',
    'store/transitions/bulk/verdicts.ts',
  ]);
  for (const { name, text } of sources.filter(({ name }) => writers.includes(name)))
    expect(text, `${name} sets the origin`).toMatch(/insert into evidence \([^)]*\borigin\b/);
});

it('reserves every kind that occurs in the source', () => {
  const folders = /^(api|operations|store|sweeps|lifecycle)\//;
  const literal = /\bkind: [^\n]*?'([a-z_]+\.[a-z_]+)'/g;
  const kinds = sources
    .filter(({ name }) => folders.test(name))
    .flatMap(({ text }) => [...text.matchAll(literal)].map(([, kind]) => kind ?? ''));
  expect(kinds.length).toBeGreaterThan(50);
  expect(kinds.filter((kind) => !isReservedKind(kind))).toEqual([]);
});

it('gives only reported kinds in the node layer the origin `report`', () => {
  expect(originOf({ kind: 'task.failed', layer: 'node' })).toBe('report');
  expect(originOf({ kind: 'task.failed', layer: 'rule' })).toBe('internal');
  expect(originOf({ kind: 'node.ready', layer: 'node' })).toBe('internal');
});
