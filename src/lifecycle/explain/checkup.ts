/**
 * Checks the layers between the server and a machine, from stored state. The first layer that fails
 * is the one to repair.
 */
import { isFenced, type NodeStatus, type TaskStatus } from '../model/states.ts';

export interface CheckedLayer {
  layer: 'credential' | 'fence' | 'heartbeat' | 'claim' | 'result';
  /** Null while the result is not known. */
  ok: boolean | null;
  /** A code of the error catalogue; null if nothing is wrong. */
  code: string | null;
  detail: string;
  /**
   * The owner that the verdict names. Without it, the owner of the code in the catalogue counts.
   */
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
  /** Supervised through its provider, or by a client of a foreign protocol. */
  agentless?: boolean;
}

const passLayer = (layer: CheckedLayer['layer'], detail: string): CheckedLayer => ({
  layer,
  ok: true,
  code: null,
  detail,
});
const failLayer = (layer: CheckedLayer['layer'], code: string, detail: string): CheckedLayer => ({
  layer,
  ok: false,
  code,
  detail,
});
const deferLayer = (layer: CheckedLayer['layer'], detail: string): CheckedLayer => ({
  layer,
  ok: null,
  code: null,
  detail,
});

const defaultStaleSeconds = 30;
const secondsSince = (then: Date, now: Date) => Math.max(0, Math.round((now.getTime() - then.getTime()) / 100) / 10);

function checkHeartbeat({ registered_at, last_seen_at, stale_seconds }: CheckedNode, now: Date): CheckedLayer {
  // A registration counts as a sign of life; the first heartbeat follows it.
  const lastSignMs = Math.max(registered_at?.getTime() ?? 0, last_seen_at?.getTime() ?? 0);
  if (lastSignMs === 0) return deferLayer('heartbeat', 'no registration or heartbeat has ever arrived');
  const stale = stale_seconds ?? defaultStaleSeconds;
  const silentSeconds = secondsSince(new Date(lastSignMs), now);
  const lastSign = `the last sign of life came ${silentSeconds} s ago`;
  return silentSeconds > stale
    ? failLayer('heartbeat', 'heartbeat_stale', `${lastSign}; it counts as silent after ${stale} s`)
    : passLayer('heartbeat', lastSign);
}

/**
 * If a machine ended before it registered, its credential was never used. The check then reports
 * the reason from the verdict.
 */
function checkCredential({ status, node_instance_id, registered_at, verdict, agentless }: CheckedNode): CheckedLayer {
  if (registered_at !== null)
    return agentless
      ? deferLayer('credential', `no agent runs on instance ${node_instance_id}`)
      : passLayer('credential', `instance ${node_instance_id} has registered`);
  if (status === 'failed' && verdict) {
    const { rule, reason, owner, certain } = verdict;
    const ended = failLayer('credential', 'boot_failed', `it ended before it registered: ${reason}`);
    const layer = rule === 'provision-error' || certain ? ended : failLayer('credential', 'never_registered', reason);
    return { ...layer, ...(owner && { owner }) };
  }
  if (isFenced(status))
    return deferLayer('credential', `no machine has registered, and none is expected: the node is ${status}`);
  if (agentless)
    return deferLayer(
      'credential',
      `no agent will run on it; the node is ${status}, and its provider is working on it`,
    );
  return failLayer('credential', 'never_registered', `the node is ${status}, and no machine has registered for it yet`);
}

function checkFence({ status, fence_reason }: CheckedNode): CheckedLayer {
  if (status === 'retired')
    return failLayer('fence', 'node_retired', `the node is retired${fence_reason ? `: ${fence_reason}` : ''}`);
  return isFenced(status)
    ? failLayer('fence', 'node_fenced', `the node is ${status}${fence_reason ? `: ${fence_reason}` : ''}`)
    : passLayer('fence', `the node is ${status} and not fenced`);
}

export const checkNode = (node: CheckedNode, now: Date): CheckedLayer[] => [
  checkCredential(node),
  checkFence(node),
  checkHeartbeat(node, now),
];

export interface PingedTask {
  status: TaskStatus;
  leases: number;
  expires_at: Date;
  error: { code: string; message: string } | null;
  /** Whether the registered agent signed the answer. */
  signed: boolean;
}

/** Error codes that the server sets when it gives a task up. All others come from the agent. */
const serverSetCodes = ['task_given_up', 'task_withdrawn'];

/** The layers that a ping has checked so far. */
export function checkPing(task: PingedTask, now: Date): CheckedLayer[] {
  const { status, leases, error } = task;
  const isExpired = status === 'failed' ? serverSetCodes.includes(error?.code ?? '') : task.expires_at <= now;
  const isAnswered = status === 'succeeded' || (status === 'failed' && !isExpired);
  const withdrawnReason = error?.code === 'task_withdrawn' ? error.message : null;
  const claim =
    leases > 0
      ? passLayer('claim', `its agent took the ping${leases > 1 ? `, ${leases} times` : ''}`)
      : isExpired
        ? failLayer('claim', 'task_unclaimed', withdrawnReason ?? 'its agent did not take the ping in time')
        : deferLayer('claim', 'the ping waits for its agent');
  if (!isAnswered)
    return [
      claim,
      isExpired
        ? failLayer('result', 'result_missing', withdrawnReason ?? 'no answer to the ping arrived in time')
        : deferLayer('result', 'no answer yet'),
    ];
  if (status === 'failed')
    return [claim, failLayer('result', 'ping_refused', `its agent answered: ${error?.message ?? 'failed'}`)];
  return [
    claim,
    task.signed
      ? passLayer('result', 'its signed answer arrived')
      : failLayer('result', 'result_unsigned', 'an answer arrived, but its agent’s key did not sign it'),
  ];
}

/** Whether the ping has ended: every layer has a result. */
export const isPingOver = (checks: CheckedLayer[]): boolean => checks.every(({ ok }) => ok !== null);
