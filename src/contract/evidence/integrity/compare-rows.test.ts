/**
 * Tampers with random rows, and tests that exactly these rows are reported, each with its change.
 */
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compareRows, type RowFault, type SealedEntry } from './compare-rows.ts';
import { cursorOf } from './entries.ts';

const hashOf = (content: string) => createHash('sha256').update(content).digest();
const entry = (seq: number, content: string): SealedEntry => ({
  xid: 700n + BigInt(seq),
  seq: BigInt(seq),
  at: 0n,
  hash: hashOf(content),
  partition: seq % 2 === 0 ? 'rule' : 'node',
});

type Act = 'keep' | 'delete' | 'change' | 'swap';
const acts = fc.array(fc.constantFrom<Act>('keep', 'keep', 'keep', 'delete', 'change', 'swap'), {
  minLength: 1,
  maxLength: 60,
});
const inserted = fc.uniqueArray(fc.integer({ min: 0, max: 59 }), { maxLength: 5 });

test('reports every deleted, changed, swapped and inserted row, and no other', () => {
  fc.assert(
    fc.property(acts, inserted, (plan, extra) => {
      const sealed = plan.map((_, seq) => entry(seq, `row ${seq}`));
      const present: SealedEntry[] = [];
      const expected: string[] = [];
      const name = (code: RowFault['code'], at: SealedEntry, to = '') =>
        `${code} ${at.partition} ${cursorOf(at)} ${to}`;
      for (let at = 0; at < plan.length; at++) {
        const row = sealed[at] as SealedEntry;
        const other = sealed[at + 2];
        if (plan[at] === 'delete') expected.push(name('row_deleted', row));
        else if (plan[at] === 'change') {
          present.push({ ...row, hash: hashOf(`other ${at}`) });
          expected.push(name('row_changed', row));
        } else if (plan[at] === 'swap' && other && plan[at + 1] === 'keep') {
          // Two rows of one partition swap places; the one between stays.
          present.push({ ...row, hash: other.hash }, sealed[at + 1] as SealedEntry, { ...other, hash: row.hash });
          expected.push(name('row_moved', row, cursorOf(other)), name('row_moved', other, cursorOf(row)));
          at += 2;
        } else present.push(row);
      }
      for (const seq of extra) {
        const forged = { ...entry(seq, `forged ${seq}`), xid: 5_000n };
        present.push(forged);
        expected.push(name('row_inserted', forged));
      }
      const { faults, matched } = compareRows(sealed, present, () => false);
      expect(
        faults.map((fault) => `${fault.code} ${fault.partition} ${fault.cursor} ${fault.moved_to ?? ''}`).sort(),
      ).toEqual(expected.sort());
      expect(matched).toBe(present.length - expected.filter((each) => !each.startsWith('row_deleted')).length);
    }),
    { numRuns: 500 },
  );
});

test('accepts a missing row only if a cut covers it', () => {
  const sealed = [entry(0, 'a'), entry(2, 'b')];
  const { faults, cut } = compareRows(sealed, [], ({ seq }) => seq === 0n);
  expect(faults.map(({ code, cursor }) => [code, cursor])).toEqual([['row_deleted', '702-2']]);
  expect(cut.map(cursorOf)).toEqual(['700-0']);
});

test('accepts a cursor shared by a fact and its snapshot', () => {
  const fact = entry(2, 'fact');
  const snapshot: SealedEntry = { ...fact, partition: 'store', hash: hashOf('snapshot') };
  expect(compareRows([fact, snapshot], [snapshot, fact], () => false)).toMatchObject({ faults: [], matched: 2 });
});
