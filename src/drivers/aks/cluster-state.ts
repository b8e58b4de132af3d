/** Decides whether a cluster is ready, and describes it to people with the state names of AKS. */
import type { ProgressPart } from '../../contract/progress.ts';
import type { Cluster, ClusterPool } from './azure/azure-clusters.ts';

const finalStates = new Set(['Succeeded', 'Failed', 'Canceled']);

/** Whether an operation of Azure is running on the cluster. */
export const isBusy = ({ provisioning }: Cluster): boolean => !finalStates.has(provisioning);

/** AKS reports `Running` while the cluster is still being created, so one field is not enough. */
export const isReady = ({ provisioning, power, pools }: Cluster): boolean =>
  provisioning === 'Succeeded' &&
  power === 'Running' &&
  pools.length > 0 &&
  pools.every(({ state }) => state === 'Succeeded');

const tones: Record<string, ProgressPart['tone']> = { Succeeded: 'ok', Failed: 'bad', Canceled: 'bad' };

export const progressParts = ({ pools }: Cluster): ProgressPart[] =>
  pools.map(({ name, state, count, error }) => ({
    name,
    kind: 'pool',
    state,
    tone: tones[state] ?? 'busy',
    count,
    ...(error && { detail: `${error.code}: ${error.message}` }),
  }));

const twoDigits = (value: number) => String(value).padStart(2, '0');

/** Formats a duration as `40s`, `1m 40s` or `1h 02m`. */
export function formatElapsed(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${twoDigits(whole % 60)}s`;
  return `${Math.floor(whole / 3600)}h ${twoDigits(Math.floor((whole % 3600) / 60))}m`;
}

const describePool = ({ name, state, count }: ClusterPool) => `${name} ${state} ${count}n`;

/** Identifies the progress. It contains no elapsed time, which would change without progress. */
export const markOf = ({ provisioning, power, pools }: Cluster, percent: number | null): string =>
  [provisioning, power, ...pools.map(describePool), ...(percent === null ? [] : [`${percent}%`])].join(' · ');

export const describePools = ({ pools }: Cluster): string => pools.map(describePool).join(', ');

/** Returns `AKS state: Creating · for 1m 40s`, with a percentage if Azure reports one. */
export function progressMessage({ provisioning }: Cluster, seconds: number, percent: number | null): string {
  const percentage = percent === null ? '' : ` · ${Math.round(percent)}%`;
  return `AKS state: ${provisioning} · for ${formatElapsed(seconds)}${percentage}`;
}
