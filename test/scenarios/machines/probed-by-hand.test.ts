/**
 * An operator probes a machine, at its address or by a task for its agent. The timeline shows the
 * result.
 */
import { Client } from 'pg';
import { expect, inject } from 'vitest';
import { httpServer } from '../../../src/probe/testing/loopback-servers.ts';
import { withDatabase } from '../../support/database.ts';
import { externalPool, joinMachine, keepBeating, waitForNode } from '../support/machines.ts';
import { type ScenarioContext, scenario } from '../support/scenario.ts';

const heartbeat = { interval_seconds: 0.5, stale_after_seconds: 30 };
const beatEvery = 0.3;

/** Only the owner of the tables may change them. */
async function asOwner(url: string, statement: string): Promise<void> {
  const client = new Client({ connectionString: withDatabase(inject('postgresUrl'), new URL(url).pathname.slice(1)) });
  await client.connect();
  await client.query(statement);
  await client.end();
}

const probe = async (context: ScenarioContext, id: string) => {
  const { operation } = await context.client.call('node-act', {
    params: { id, action: 'probe' },
    body: { reason: 'somebody says that it hangs' },
  });
  return operation?.workflow_id ?? '';
};

const waitForAnswer = (context: ScenarioContext, workflow_id: string) =>
  context.waitFor('the answer', async () => {
    const operation = await context.client.call('operation-get', { params: { id: workflow_id } });
    return operation.status === 'succeeded' ? operation.progress.message : undefined;
  });

const readProbeEvidence = (context: ScenarioContext, workflow_id: string) =>
  context.db.query<{ kind: string; node_id: string }>(
    "select kind, node_id from evidence where workflow_id = $1 and kind like 'probe.%' order by seq",
    [workflow_id],
  );

scenario({
  name: 'a machine that an operator probes',
  async story(context) {
    await externalPool(context, 'pier', { heartbeat, probe: { path: '/well', allow_private: true } });
    let status = 200;
    const { port } = await httpServer((_, reply) => {
      reply.statusCode = status;
      reply.end();
    });
    const base_url = `http://127.0.0.1:${port}`;
    const withAddress = await joinMachine(context, 'pier', 'with-address', { base_url });
    const withoutAddress = await joinMachine(context, 'pier', 'without-address');
    const heartbeats = [withAddress, withoutAddress].map((machine) => keepBeating(machine, beatEvery, 'ready'));
    try {
      for (const { node_id } of [withAddress, withoutAddress]) await waitForNode(context, node_id, 'ready');

      const first = await probe(context, withAddress.node_id);
      expect(await waitForAnswer(context, first)).toMatch(`It is alive: ${base_url} answered, status 200`);
      expect(await readProbeEvidence(context, first)).toEqual([
        { kind: 'probe.answered', node_id: withAddress.node_id },
      ]);
      status = 503;
      const second = await probe(context, withAddress.node_id);
      expect(await waitForAnswer(context, second)).toMatch(/^It does not answer at .*: bad_status: .*503/);
      expect(await readProbeEvidence(context, second)).toEqual([
        { kind: 'probe.unanswered', node_id: withAddress.node_id },
      ]);

      const third = await probe(context, withoutAddress.node_id);
      let answer: string | undefined;
      await withoutAddress.work(async () => {
        const operation = await context.client.call('operation-get', { params: { id: third } });
        answer = operation.status === 'succeeded' ? operation.progress.message : undefined;
        return answer !== undefined;
      });
      expect(answer).toBe('It is alive: its agent took a task and answered it');
    } finally {
      for (const each of heartbeats) await each.stop();
    }
  },
  counterTests: [
    {
      broken: 'a task that expires before it can be leased',
      composition: {
        // This sweep is the first to run, so the trigger exists before the operator probes.
        sweeps: (registry, services) => [
          {
            name: 'impatient',
            every_seconds: 60,
            run: async () => {
              await asOwner(
                services.db.url,
                `create or replace function be_over() returns trigger language plpgsql as
                   $$ begin new.expires_at := new.created_at; return new; end $$;
                 create or replace trigger be_over before insert on tasks for each row when (new.type = 'ping') execute function be_over()`,
              );
              return { decided: 0 };
            },
          },
          ...registry,
        ],
      },
      fails: /its agent took a task/,
    },
  ],
});
