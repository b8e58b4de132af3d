/**
 * Simulates a machine of an external pool over plain HTTP. The machine registers, sends heartbeats
 * and log lines, and answers tasks on demand.
 */

import { newKeyPair, publicKeyOf, signatureOf } from '../../../src/agent/connection/keys.ts';
import type { RegisterReply, SignedTask } from '../../../src/contract/agent/agent.ts';
import type { OperationName } from '../../../src/contract/routes.ts';
import { type Answer, callRoute, type Input } from './calls.ts';

export interface Machine extends RegisterReply {
  credential: string;
  /** Signs the results of tasks; a test may replace the key. */
  private_key: string;
  /** Fields to add to the result of a task, by task type. */
  resultFields: Record<string, object>;
  call(name: OperationName, input?: Input, raw?: { raw: string; headers: Record<string, string> }): Promise<Answer>;
  beat(status?: string): Promise<Answer>;
  log(seq: number, line: string): Promise<Answer>;
  /** Sends heartbeats and answers tasks until `isDone` returns true. */
  work(isDone: () => Promise<boolean>): Promise<void>;
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
  const answerTask = async (task: SignedTask) => {
    const result = { nonce: task.params.nonce ?? '', ...machine.resultFields[task.type] };
    const signedBody = {
      task_id: task.task_id,
      node_instance_id: registered.node_instance_id,
      status: 'succeeded',
      result,
    };
    await call('agent-task-result', {
      params: { id: task.task_id },
      body: { status: 'succeeded', result, signature: signatureOf(machine.private_key, signedBody) },
    });
  };
  const machine: Machine = {
    ...registered,
    private_key,
    resultFields: {},
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
    async work(isDone) {
      while (!(await isDone())) {
        await machine.beat();
        const { body } = await call('agent-task-next', { query: { wait: 0.2 } });
        const task = body.task as SignedTask | null;
        if (task) await answerTask(task);
      }
    },
  };
  return machine;
}
