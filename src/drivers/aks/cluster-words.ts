/** Renders a cluster for people, and decides whether it is ready. AKS's own words are kept. */
import type { ProgressPart } from '../../contract/progress.ts';
import type { Cluster, ClusterPool } from './azure/azure-clusters.ts';

const ended = new Set(['Succeeded', 'Failed', 'Canceled']);

/** Whether Azure is working on it. */
export const isBusy = ({ provisioning }: Cluster): boolean => !ended.has(provisioning);

/** AKS reports `Running` while the cluster is still being created, so one field is not enough. */
export const isReady = ({ provisioning, power, pools }: Cluster): boolean =>
  provisioning === 'Succeeded' &&
  power === 'Running' &&
  pools.length > 0 &&
  pools.every(({ state }) => state === 'Succeeded');

const tones: Record<string, ProgressPart['tone']> = { Succeeded: 'ok', Failed: 'bad', Canceled: 'bad' };

export const partsOf = ({ pools }: Cluster): ProgressPart[] =>
  pools.map(({ name, state, count, error }) => ({
    name,
    kind: 'pool',
    state,
    tone: tones[state] ?? 'busy',
    count,
    ...(error && { detail: `${error.code}: ${error.message}` }),
  }));

const two = (value: number) => String(value).padStart(2, '0');

/** `40s`, `1m 40s`, `1h 02m`. */
export function elapsed(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${two(whole % 60)}s`;
  return `${Math.floor(whole / 3600)}h ${two(Math.floor((whole % 3600) / 60))}m`;
}

const poolWords = ({ name, state, count }: ClusterPool) => `${name} ${state} ${count}n`;

/** The progress reached, without anything that changes by itself. */
export const markOf = ({ provisioning, power, pools }: Cluster, percent: number | null): string =>
  [provisioning, power, ...pools.map(poolWords), ...(percent === null ? [] : [`${percent}%`])].join(' · ');

export const poolsInWords = ({ pools }: Cluster): string => pools.map(poolWords).join(', ');

/** `AKS state: Creating · ARM 1m 40s`, and the percentage if Azure gives one. */
export function progressMessage({ provisioning }: Cluster, seconds: number, percent: number | null): string {
  const done = percent === null ? '' : ` · ${Math.round(percent)}%`;
  return `AKS state: ${provisioning} · ARM ${elapsed(seconds)}${done}`;
}
