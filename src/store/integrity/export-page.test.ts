/** Pages of the export hold whole cursors. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type SealedStore, sealedStore } from '../../../test/support/sealed-store.ts';
import { startCursor } from '../evidence/commit-order.ts';
import { type ExportPlace, exportPage } from './export-page.ts';

let store: SealedStore;

beforeAll(async () => {
  store = await sealedStore();
});
afterAll(() => store?.close());

test('exports more rows with one cursor than fit into a page', async () => {
  const [, cursor] = await store.facts(3);
  await store.dba.query(
    `insert into evidence (xid, seq, at, layer, kind, summary)
     select xid, seq, at, layer, kind, 'copy ' || n
     from evidence, generate_series(1, 5) n
     where xid || '-' || seq = $1`,
    [cursor],
  );
  await store.sealAll();
  const summaries: string[] = [];
  let place: ExportPlace = { position: 1, after: startCursor };
  for (let pages = 0; pages < 10; pages++) {
    const page = await exportPage(store.db, place, 2);
    summaries.push(...page.records.flatMap((record) => (record.type === 'row' ? [record.row.summary] : [])));
    place = page.next;
    if (page.at_end) break;
  }
  const copies = [1, 2, 3, 4, 5].map((n) => `copy ${n}`);
  expect(summaries.sort()).toEqual([...copies, 'fact 0', 'fact 1', 'fact 2']);
});
