/** The relay's figures for Prometheus. They do not identify agents. */
import type { BatcherFigures } from './batcher.ts';

const described: Record<keyof RelayFigures, [name: string, type: 'counter' | 'gauge', help: string]> = {
  taken: ['beats_total', 'counter', 'Beats that agents sent'],
  joined: ['beats_joined_total', 'counter', 'Beats that travelled with an equal one of their instance'],
  batches: ['batches_total', 'counter', 'Batches that were sent to the control plane'],
  unheard: ['beats_unheard_total', 'counter', 'Beats whose agents were told that they were not heard'],
  held: ['beats_held', 'gauge', 'Beats that wait for an answer'],
  away_seconds: ['upstream_away_seconds', 'gauge', 'For how long no batch could be passed on'],
  streaming: ['upstream_streaming', 'gauge', 'Whether batches go by a stream'],
};

export const relayMetrics = (figures: RelayFigures): string =>
  Object.entries(described)
    .map(([key, [name, type, help]]) => {
      const value = Number(figures[key as keyof RelayFigures]);
      return `# HELP slipway_relay_${name} ${help}\n# TYPE slipway_relay_${name} ${type}\nslipway_relay_${name} ${value}\n`;
    })
    .join('');

export interface RelayFigures extends BatcherFigures {
  streaming: boolean;
}
