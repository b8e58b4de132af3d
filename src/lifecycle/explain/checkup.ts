/** How a machine stands, judged layer by layer from what is on record. Pure; the first layer that is not well is where it stops. */
import { isFenced, type NodeStatus, type TaskStatus } from '../model/states.ts';

export interface CheckedLayer {
  layer: 'credential' | 'fence' | 'heartbeat' | 'claim' | 'result';
  /** Null while it cannot be said yet. */
  ok: boolean | null;
  /** Of the error catalogue; null where nothing is wrong. */
  code: string | null;
  detail: string;
  /** Whose it is to see to it, where what is on record says so; else as the catalogue has it. */
  owner?: string;
}

export interface CheckedNode {
  status: NodeStatus;
  node_instance_id: string | null;
  registered_at: Date | null;
  fence_reason: string | null;
  verdict: { rule: string; reason: string; owner?: string | undefined; certain?: boolean | undefined } | null;
  last_seen_at: Date | null;
  stale_seconds: number | null;
  /** Its provider, or a client of another kind, speaks for it. */
  agentless?: boolean;
}

const well = (layer: CheckedLayer['layer'], detail: string): CheckedLayer => ({ layer, ok: true, code: null, detail });
const unwell = (layer: CheckedLayer['layer'], code: string, detail: string): CheckedLayer => ({
  layer,
  ok: false,
  code,
  detail,
});
const open = (layer: CheckedLayer['layer'], detail: string): CheckedLayer => ({ layer, ok: null, code: null, detail });

const usualStaleSeconds = 30;
const secondsSince = (then: Date, now: Date) => Math.max(0, Math.round((now.getTime() - then.getTime()) / 100) / 10);

function heartbeat({ registered_at, last_seen_at, stale_seconds }: CheckedNode, now: Date): CheckedLayer {
  // A registration is a sign of life too; the first beat follows it.
  const heard = Math.max(registered_at?.getTime() ?? 0, last_seen_at?.getTime() ?? 0);
  if (heard === 0) return open('heartbeat', 'it was never heard');
  const stale = stale_seconds ?? usualStaleSeconds;
  const silent = secondsSince(new Date(heard), now);
  return silent > stale
    ? unwell('heartbeat', 'heartbeat_stale', `it was last heard ${silent} s ago, and counts as silent after ${stale} s`)
    : well('heartbeat', `it was last heard ${silent} s ago`);
}

/** A machine that ended before it could register says nothing about credentials: what is on record says what became of it. */
function credential({ status, node_instance_id, registered_at, verdict, agentless }: CheckedNode): CheckedLayer {
  if (registered_at !== null)
    return agentless
      ? open('credential', `no agent of ours runs on instance ${node_instance_id}`)
      : well('credential', `instance ${node_instance_id} has registered`);
  if (status === 'failed' && verdict) {
    const { rule, reason, owner, certain } = verdict;
    const ended = unwell('credential', 'boot_failed', `it ended before it could register: ${reason}`);
    const judged = rule === 'provision-error' || certain ? ended : unwell('credential', 'never_registered', reason);
    return { ...judged, ...(owner && { owner }) };
  }
  if (isFenced(status))
    return open('credential', `none has registered, and none is waited for any more: the node is ${status}`);
  if (agentless)
    return open('credential', `no agent of ours will run on it; the node is ${status}, and its provider is at work`);
  return unwell('credential', 'never_registered', `the node is ${status}, and no machine has registered for it yet`);
}

function fence({ status, fence_reason }: CheckedNode): CheckedLayer {
  if (status === 'retired')
    return unwell('fence', 'node_retired', `the node is retired${fence_reason ? `: ${fence_reason}` : ''}`);
  return isFenced(status)
    ? unwell('fence', 'node_fenced', `the node is ${status}${fence_reason ? `: ${fence_reason}` : ''}`)
    : well('fence', `the node is ${status}; nothing is barred for it`);
}

export const checkNode = (standing: CheckedNode, now: Date): CheckedLayer[] => [
  credential(standing),
  fence(standing),
  heartbeat(standing, now),
];

export interface PingedTask {
  status: TaskStatus;
  leases: number;
  expires_at: Date;
  error: { code: string; message: string } | null;
  /** Whether the answer carries the signature of the agent that registered. */
  signed: boolean;
}

/** These are written by our own rules, and not by the agent. */
const givenUp = ['task_given_up', 'task_withdrawn'];

/** What a ping has shown so far. */
export function checkPing(task: PingedTask, now: Date): CheckedLayer[] {
  const { status, leases, error } = task;
  const late = status === 'failed' ? givenUp.includes(error?.code ?? '') : task.expires_at <= now;
  const answered = status === 'succeeded' || (status === 'failed' && !late);
  const why = error?.code === 'task_withdrawn' ? error.message : null;
  const claim =
    leases > 0
      ? well('claim', `its agent took the ping${leases > 1 ? `, ${leases} times` : ''}`)
      : late
        ? unwell('claim', 'task_unclaimed', why ?? 'the ping waited, and its agent did not take it in time')
        : open('claim', 'the ping waits for its agent');
  if (!answered)
    return [
      claim,
      late
        ? unwell('result', 'result_missing', why ?? 'no answer to the ping arrived in time')
        : open('result', 'no answer yet'),
    ];
  if (status === 'failed')
    return [claim, unwell('result', 'ping_refused', `its agent answered: ${error?.message ?? 'failed'}`)];
  return [
    claim,
    task.signed
      ? well('result', 'its signed answer arrived')
      : unwell('result', 'result_unsigned', 'an answer arrived, but not signed by its agent’s key'),
  ];
}

/** A ping is over once nothing that may still come would change what was judged. */
export const isPingOver = (judged: CheckedLayer[]): boolean => judged.every(({ ok }) => ok !== null);
