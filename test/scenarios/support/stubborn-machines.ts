/**
 * External machines that fail to clean up until `relent`. Each joins, signs and answers its
 * tasks over the agents' protocol. Many fit in one process, while real agents would need one each.
 */
import { newKeyPair, publicKeyOf, signatureOf } from '../../../src/agent/connection/keys.ts';
import { pause, systemClock } from '../../../src/base/clock.ts';
import type { SignedTask } from '../../../src/contract/agent/agent.ts';
import type { PoolDocument } from '../../../src/contract/pool.ts';
import { callRoute } from '../../api/support/calls.ts';
import type { TestServer } from '../../support/server.ts';
import { sendBeats } from './fleet.ts';

/**
 * Each release makes one try and is retried only by an operator. The long stale time keeps the
 * liveness rule out.
 */
export const stubbornPool: Partial<PoolDocument> & { driver: string } = {
  driver: 'external',
  heartbeat: { interval_seconds: 60, stale_after_seconds: 3600 },
  release: { step_tries: 1, retry_base_seconds: 3600, retry_max_seconds: 3600 },
};

/** Runs eight calls at a time, so that a busy test host answers each before its timeout. */
export async function fewAtOnce<T>(count: number, work: (i: number) => Promise<T>): Promise<T[]> {
  const batchSize = 8;
  const done: T[] = [];
  for (let from = 0; from < count; from += batchSize) {
    const calls = Array.from({ length: Math.min(batchSize, count - from) }, (_, i) => work(from + i));
    done.push(...(await Promise.all(calls)));
  }
  return done;
}

export interface StubbornMachines {
  /** From now on the machines clean up. */
  relent(): void;
  end(): Promise<void>;
}

const cleanError = { code: 'clean_failed', message: 'no space left on device' };
/** The pause before a poll is repeated after an error, such as a restart of the server. */
const retryMs = 200;
const pollSeconds = 10;

export async function stubbornMachines(
  server: Pick<TestServer, 'url' | 'client'>,
  pool: string,
  count: number,
): Promise<StubbornMachines> {
  const { token } = await server.client.call('join-token-create', { params: { pool } });
  const { url } = server;
  let isStubborn = true;
  let isOver = false;

  const join = async (name: string) => {
    const key = newKeyPair();
    const reply = await callRoute(url, 'agent-register', {
      body: { join_token: token, name, version: 'test', agent_public_key: publicKeyOf(key) },
    });
    if (reply.status !== 201) throw new Error(`${name} could not join: ${reply.status} ${reply.text}`);
    const node_instance_id = String(reply.body.node_instance_id);
    return { key, node_instance_id, credential: String(reply.body.credential) };
  };
  type Joined = Awaited<ReturnType<typeof join>>;

  const resultOf = ({ task_id, type, params }: SignedTask, { key, node_instance_id }: Joined) => {
    if (isStubborn && type === 'release.clean') {
      const signedFields = { task_id, node_instance_id, status: 'failed', result: null };
      return { status: 'failed', error: cleanError, signature: signatureOf(key, signedFields) };
    }
    const result = { nonce: params.nonce ?? '', checked: [{ what: 'a simulated machine', seen: 'nothing' }] };
    const signedFields = { task_id, node_instance_id, status: 'succeeded', result };
    return { status: 'succeeded', result, signature: signatureOf(key, signedFields) };
  };

  const answerOne = async (machine: Joined) => {
    const authentication = { bearer: machine.credential };
    const { body } = await callRoute(url, 'agent-task-next', { query: { wait: pollSeconds } }, authentication);
    const task = body.task as SignedTask | null | undefined;
    if (!task) return;
    const input = { params: { id: task.task_id }, body: resultOf(task, machine) };
    await callRoute(url, 'agent-task-result', input, authentication);
  };

  const serve = async (machine: Joined) => {
    while (!isOver) await answerOne(machine).catch(() => pause(systemClock, retryMs));
  };

  const machines = await fewAtOnce(count, (i) => join(`${pool}-${i + 1}`));
  await sendBeats(
    url,
    machines.map(({ credential }) => credential),
    'ready',
  );
  const loops = machines.map(serve);
  return {
    relent() {
      isStubborn = false;
    },
    async end() {
      isOver = true;
      await Promise.all(loops);
    },
  };
}
