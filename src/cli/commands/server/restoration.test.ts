/** `slipway restoration` against a scripted server. */
import { beforeEach, expect, test } from 'vitest';
import type { RestorationDifference, RestorationState } from '../../../contract/supervision/restoration.ts';
import { runCli } from '../../testing/run-cli.ts';
import { ScriptedServer } from '../../testing/scripted-server.ts';

let server: ScriptedServer;
beforeEach(async () => {
  server = await new ScriptedServer().start();
  return () => server.stop();
});
const slipway = (...args: string[]) => runCli(args, { server: server.url });

type Newest = NonNullable<RestorationState['newest']>;

function answer(fields: Partial<Newest> = {}): RestorationState {
  const newest: Newest = {
    sign: 'backup_loaded',
    began_at: '2026-01-01T12:00:00.000Z',
    remembers_until: '2026-01-01T03:00:00.000Z',
    inspected_at: null,
    comparing: true,
    ended_at: null,
    ended_by: null,
    end_reason: null,
    differences: { changed_hands: 2, came: 1, gone: 0, unconfirmed: 0, maybe_used: 0 },
    ...fields,
  };
  const state = { observing: newest.ended_at === null, newest };
  server.on('restoration-get', () => ({ body: state }));
  return state;
}

test('says that the servers only observe, since when, what differs, and how to end it', async () => {
  const state = answer();
  const { code, stdout } = await slipway('restoration');
  expect(code).toBe(0);
  expect(stdout).toContain('✖ The database was restored, so the servers only observe');
  expect(stdout).toMatch(/rows until +2026-01-01 03:00:00Z/);
  expect(stdout).toMatch(/machines inspected +not all yet/);
  expect(stdout).toContain('Changed hands: 2 machines\n');
  expect(stdout).toContain('Unknown here: 1 machine\n');
  expect(stdout).not.toContain('Gone:');
  expect(stdout).toContain('quarantined when you end the restoration.');
  expect(stdout).toContain('slipway restoration list');
  expect(stdout).toContain('slipway restoration end --reason');
  expect((await slipway('restoration', 'show')).stdout).toBe(stdout);
  expect(JSON.parse((await slipway('restoration', '--json')).stdout)).toEqual(state);
});

test('says after the end that the servers act, and gives no advice', async () => {
  answer({ ended_at: '2026-01-01T13:00:00.000Z', inspected_at: '2026-01-01T12:10:00.000Z' });
  const { stdout } = await slipway('restoration');
  expect(stdout).toContain('✔ The servers act; the restoration has ended');
  expect(stdout).toMatch(/ended +2026-01-01 13:00:00Z/);
  expect(stdout).toContain('Changed hands: 2 machines\n');
  expect(stdout).not.toContain('when you end the restoration');
  expect(stdout).not.toContain('restoration end');
});

test('says so if nothing differs, and if the database was never restored', async () => {
  answer({ remembers_until: null, differences: { changed_hands: 0, came: 0, gone: 0, unconfirmed: 0, maybe_used: 0 } });
  const { stdout } = await slipway('restoration');
  expect(stdout).toContain('No machine differs from its row.');
  expect(stdout).toMatch(/rows until +unknown/);
  server.on('restoration-get', () => ({ body: { observing: false, newest: null } }));
  expect((await slipway('restoration')).stdout).toBe('The database was never restored.\n');
});

const difference = (fields: Partial<RestorationDifference>): RestorationDifference => ({
  ...{ kind: 'gone', subject: 'node_1', driver: null, host: null, node_id: 'node_1', node_instance_id: 'inst_1' },
  ...{ seen: 'the provider shows the machine as absent' },
  ...{ first_seen_at: '2026-01-01T12:00:00.000Z', seen_at: '2026-01-01T12:00:00.000Z' },
  ...fields,
});

test('lists the machines of all pages, up to the limit', async () => {
  server.on('restoration-differences', ({ query }) => ({
    body: query.cursor
      ? { items: [difference({})], next_cursor: null }
      : { items: [difference({ kind: 'came', subject: 'vm/9\u001b[31m' })], next_cursor: 'came vm/9' },
  }));
  const { code, stdout } = await slipway('restoration', 'list');
  expect(code).toBe(0);
  expect(stdout).toMatch(/^Unknown here +vm\/9.* +the provider/m);
  expect(stdout).toMatch(/^Gone +node_1 +the provider shows the machine as absent$/m);
  expect(stdout).not.toContain('\u001b[31m');
  const { stderr } = await slipway('restoration', 'list', '--limit', '1');
  expect(stderr).toContain('Raise --limit to see them.');
  server.on('restoration-differences', () => ({ body: { items: [], next_cursor: null } }));
  expect((await slipway('restoration', 'list')).stdout).toContain('No machine differs from its row.');
});

test('ends the restoration with a reason, and says how many nodes were quarantined', async () => {
  const ended = { ended_at: '2026-01-01T13:00:00.000Z', quarantined: 2 };
  server.on('restoration-end', () => ({ body: ended }));
  const { code, stdout } = await slipway('restoration', 'end', '-r', 'compared');
  expect(code).toBe(0);
  expect(stdout).toContain('✔ The servers act again; 2 nodes quarantined: slipway nodes --status quarantined');
  const [call] = server.callsOf('restoration-end');
  expect(call?.body).toEqual({ reason: 'compared' });
  expect(call?.headers['idempotency-key']).toMatch(/./);

  server.on('restoration-end', () => ({ body: { ...ended, quarantined: 0 } }));
  const all = await slipway('restoration', 'end', '--reason', 'x', '--trust-free', '--force');
  expect(all.stdout).toContain('no node was quarantined');
  expect(server.callsOf('restoration-end')[1]?.body).toEqual({ reason: 'x', trust_free: true, force: true });
  const json = await slipway('restoration', 'end', '-r', 'x', '--json');
  expect(JSON.parse(json.stdout)).toEqual({ ...ended, quarantined: 0 });
});

test('does not end it without a reason, and shows why the server refused', async () => {
  const { code, stderr } = await slipway('restoration', 'end');
  expect(code).toBe(2);
  expect(stderr).toContain("required option '-r, --reason <text>'");
  expect(server.calls).toEqual([]);
  server.refuse('restoration-end', { code: 'action_illegal', status: 409, detail: 'Not every machine was inspected.' });
  const refused = await slipway('restoration', 'end', '-r', 'x');
  expect(refused.code).not.toBe(0);
  expect(refused.stderr).toContain('Not every machine was inspected.');
});
