/** The residue ledger as a program meets its commands. */
import { beforeEach, expect, test } from 'vitest';
import { runCli } from '../../testing/run-cli.ts';
import { sampleIds, sampleOperation } from '../../testing/samples.ts';
import { ScriptedServer } from '../../testing/scripted-server.ts';
import { sampleResidue } from '../../testing/supervision-samples.ts';

const entry = sampleResidue;

let server: ScriptedServer;
beforeEach(async () => {
  server = await new ScriptedServer().start();
  server.on('residue-list', () => ({ body: { items: [entry], next_cursor: null } }));
  return () => server.stop();
});
const slipway = (...args: string[]) => runCli(args, { server: server.url });

test('shows what is open, with what was last seen of it', async () => {
  const { code, stdout } = await slipway('residue');
  expect(code).toBe(0);
  for (const told of ['res_1', 'force-release', 'directory', '1.5/h', 'still there on host rack-7'])
    expect(stdout).toContain(told);
  expect(server.callsOf('residue-list').map(({ query }) => query.status)).toEqual(['open']);
});

test('--all asks for what is over as well, and says so where nothing is left', async () => {
  server.on('residue-list', () => ({ body: { items: [], next_cursor: null } }));
  expect((await slipway('residue', '--all')).stdout).toContain('Nothing is left behind.');
  expect(server.callsOf('residue-list').map(({ query }) => query.status)).toEqual([undefined]);
});

test.for(['verify', 'adopt', 'delete'] as const)('%s hands the reason on', async (deed) => {
  const operation = deed === 'adopt' ? null : sampleOperation();
  server.on(`residue-${deed}`, () => ({
    body: { residue: entry, operation, dry_run: false, predicts: { says: 'it is looked at' } },
  }));
  const { code, stdout } = await slipway('residue', deed, 'res_1', '--reason', 'because');
  expect(code).toBe(0);
  expect(stdout).toContain('directory /nodes/inst_1');
  expect(stdout.includes(`slipway watch ${sampleIds.workflow_id}`)).toBe(operation !== null);
  const [call] = server.callsOf(`residue-${deed}`);
  expect(call).toMatchObject({ params: { id: 'res_1' }, body: { reason: 'because' } });
});

test('nothing is done without a reason: exit 2', async () => {
  expect((await slipway('residue', 'delete', 'res_1')).code).toBe(2);
  expect(server.callsOf('residue-delete')).toEqual([]);
});

test('a dry run says what would come of it, and that nothing was done', async () => {
  const predicts = { says: 'it is destroyed and proven gone' };
  server.on('residue-delete', () => ({ body: { residue: entry, operation: null, dry_run: true, predicts } }));
  const { stdout } = await slipway('residue', 'delete', 'res_1', '--dry-run');
  expect(stdout).toBe('○ Nothing was done. To delete res_1 would mean: it is destroyed and proven gone\n');
  expect(server.callsOf('residue-delete')[0]?.body).toEqual({ reason: expect.any(String), dry_run: true });
});
