/** Checks how faults of sealed evidence are paired, listed and counted. */
import { beforeEach, expect, test } from 'vitest';
import type { EvidenceFault } from '../../../contract/evidence/evidence-seals.ts';
import { runCli } from '../../testing/run-cli.ts';
import { ScriptedServer } from '../../testing/scripted-server.ts';
import { pairMoved } from './verify-evidence.ts';

const fault = (code: EvidenceFault['code'], cursor: string, hash: string): EvidenceFault => ({
  code,
  partition: 'rule',
  cursor,
  until: null,
  moved_to: null,
  hash,
  checkpoint: null,
});

test('reports a row deleted in one place and inserted in another as one moved row', () => {
  const moved = [
    fault('row_inserted', '9-9', 'aa'),
    fault('row_deleted', '1-1', 'aa'),
    fault('row_deleted', '2-2', 'bb'),
  ];
  expect(pairMoved(moved)).toEqual([
    { ...fault('row_moved', '1-1', 'aa'), moved_to: '9-9' },
    fault('row_deleted', '2-2', 'bb'),
  ]);
});

let server: ScriptedServer;
beforeEach(async () => {
  server = await new ScriptedServer().start();
  return () => server.stop();
});

test('lists the first faults of a partition and counts the others', async () => {
  const items = Array.from({ length: 30 }, (_, i) => fault('row_deleted', `1-${i}`, String(i)));
  const verified = { compared: 0, untold: 0, items: [], miscounted: [], next_cursor: null };
  server.on('store-verify', () => ({ body: verified }));
  server.on('key-list', () => ({ body: { installation: 'slipway-test', keys: [] } }));
  const page = { checkpoints: [], rows: 5, cuts: [], more_faults: 0, unsealed: { rows: 2, oldest_at: null } };
  server.on('evidence-verify', ({ query }) => ({
    body: query.cursor ? { ...page, items: [], next_cursor: null } : { ...page, items, next_cursor: '51' },
  }));
  const { code, stdout } = await runCli(['verify-store', '--json', '--max-faults', '3'], { server: server.url });
  const { evidence } = JSON.parse(stdout);
  expect(code).toBe(1);
  expect(evidence).toMatchObject({ rows: 10, unlisted: { rule: 27 }, unsealed: { rows: 2 } });
  expect(evidence.faults).toHaveLength(3);
});

test('refuses a public key file without a key', async () => {
  server.on('store-verify', () => ({ body: { compared: 0, untold: 0, items: [], miscounted: [], next_cursor: null } }));
  const { code, stderr } = await runCli(['verify-store', '--public-key', import.meta.filename], { server: server.url });
  expect(code).toBe(2);
  expect(stderr).toContain('no public key found');
});
