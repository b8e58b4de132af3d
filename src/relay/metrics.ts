/** The relay's figures for Prometheus. They do not identify agents. */
import type { BatcherFigures } from './batcher.ts';

const described: Record<keyof RelayFigures, [name: string, type: 'counter' | 'gauge', help: string]> = {
  taken: ['beats_total', 'counter', 'Heartbeats received from agents'],
  joined: ['beats_joined_total', 'counter', 'Heartbeats merged with an equal one of their instance'],
  batches: ['batches_total', 'counter', 'Batches sent to the control plane'],
  unheard: ['beats_unheard_total', 'counter', 'Heartbeats answered as not delivered'],
  held: ['beats_held', 'gauge', 'Heartbeats waiting for an answer'],
  away_seconds: ['upstream_away_seconds', 'gauge', 'Time that no batch could be delivered; 0 if all is well'],
  streaming: ['upstream_streaming', 'gauge', '1 if batches use a stream'],
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
