/**
 * Reads the control plane's replies to a batch. A reply that does not match the contract counts as
 * if the control plane had not answered.
 */
import type { HeartbeatResult } from '../contract/agent/agent.ts';
import { NotForwarded } from './batcher.ts';

type Fields = Record<string, unknown>;
const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null;

const isResult = (value: unknown): value is HeartbeatResult =>
  isFields(value) &&
  ((typeof value.node_status === 'string' && typeof value.heartbeat_interval_seconds === 'number') ||
    (typeof value.code === 'string' && typeof value.status === 'number'));

/** Returns null unless there is one result per heartbeat. */
export function readResults(value: unknown, beats: number): HeartbeatResult[] | null {
  return Array.isArray(value) && value.length === beats && value.every(isResult) ? value : null;
}

/** Statuses that concern the content of a batch. Any other refusal would apply to every batch. */
const batchStatuses = [400, 413, 422];
const tokenStatuses = [401, 403];

export function refusalOf(problem: unknown): NotForwarded {
  if (!isFields(problem) || typeof problem.code !== 'string' || typeof problem.status !== 'number')
    return new NotForwarded('the answer is not from a control plane');
  const { code, status } = problem;
  const detail = typeof problem.detail === 'string' ? problem.detail : '';
  const retry = typeof problem.retry_after_seconds === 'number' ? problem.retry_after_seconds : 0;
  const refusal = batchStatuses.includes(status) ? { code, status, detail } : null;
  const undeliveredCode = tokenStatuses.includes(status) ? 'relay_token_refused' : 'relay_upstream_away';
  return new NotForwarded(`${code}: ${detail}`, refusal, retry, undeliveredCode);
}
