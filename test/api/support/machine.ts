/**
 * Simulates a machine of an external pool over plain HTTP: it registers, sends heartbeats and
 * lines, and answers tasks on demand.
 */

import { newKeyPair, publicKeyOf, signed } from '../../../src/agent/connection/keys.ts';
import type { RegisterReply, SignedTask } from '../../../src/contract/agent/agent.ts';
import type { OperationName } from '../../../src/contract/routes.ts';
import { type Answer, callRoute, type Input } from './calls.ts';

export interface Machine extends RegisterReply {
  credential: string;
  /** Signs its answers; a test may replace it. */
  private_key: string;
  /** Added to its answers, by type of task. */
  says: Record<string, object>;
  call(name: OperationName, input?: Input, raw?: { raw: string; headers: Record<string, string> }): Promise<Answer>;
  beat(status?: string): Promise<Answer>;
  log(seq: number, line: string): Promise<Answer>;
  /** Answers tasks until `enough` returns true. */
  work(enough: () => Promise<boolean>): Promise<void>;
}

export const registration = (token: { enrollment_token: string } | { join_token: string; name: string }) => ({
  ...token,
  version: 'test',
});

const at = '2030-01-01T00:00:00Z';

export async function startMachine(
  url: string,
  token: { enrollment_token: string } | { join_token: string; name: string },
  more: { rotates_credential?: true } = {},
): Promise<Machine> {
  const private_key = newKeyPair();
  const reply = await callRoute(url, 'agent-register', {
    body: { ...registration(token), agent_public_key: publicKeyOf(private_key), ...more },
  });
  if (reply.status !== 201) throw new Error(`not registered: ${reply.status} ${reply.text}`);
  const registered = reply.body as unknown as Machine;
  const call: Machine['call'] = (name, input = {}, raw) =>
    callRoute(url, name, input, { bearer: machine.credential, ...raw });
  const answer = async (task: SignedTask) => {
    const result = { nonce: task.params.nonce ?? '', ...machine.says[task.type] };
    const said = { task_id: task.task_id, node_instance_id: registered.node_instance_id, status: 'succeeded', result };
    await call('agent-task-result', {
      params: { id: task.task_id },
      body: { status: 'succeeded', result, signature: signed(machine.private_key, said) },
    });
  };
  const machine: Machine = {
    ...registered,
    private_key,
    says: {},
    call,
    beat: (status) => call('agent-heartbeat', { body: status ? { status } : {} }),
    log: (seq, line) =>
      call(
        'agent-logs',
        {},
        {
          raw: `${JSON.stringify({ seq, at, stream: 'stdout', line })}\n`,
          headers: { 'content-type': 'application/x-ndjson' },
        },
      ),
    async work(enough) {
      while (!(await enough())) {
        await machine.beat();
        const { body } = await call('agent-task-next', { query: { wait: 0.2 } });
        const task = body.task as SignedTask | null;
        if (task) await answer(task);
      }
    },
  };
  return machine;
}
