/** How large the fleet is, how fast it may beat, and what befalls it. */
import { parseArgs } from 'node:util';
import { quick } from '../measure.ts';

/** The size to try things with, and the one that counts. */
const sizes = {
  quick: { nodes: 20_000, minutes: 1.5, rate: 2_000, deaths: 100, restarts: 100, faltering: 200, joins: 200 },
  story: { nodes: 20_000, minutes: 4, rate: 2_000, deaths: 100, restarts: 100, faltering: 0, joins: 200 },
  whole: {
    nodes: 1_000_000,
    minutes: 10,
    rate: 8_000,
    deaths: 1_000,
    restarts: 1_000,
    faltering: 2_000,
    joins: 3_000,
  },
};

const { values } = parseArgs({
  strict: false,
  options: {
    nodes: { type: 'string' },
    minutes: { type: 'string' },
    rate: { type: 'string' },
    deaths: { type: 'string' },
    restarts: { type: 'string' },
    faltering: { type: 'string' },
    joins: { type: 'string' },
    relays: { type: 'string', default: '20' },
    streams: { type: 'string', default: '200' },
    seed: { type: 'string', default: '1' },
    statements: { type: 'boolean', default: false },
    story: { type: 'string' },
  },
});

/** Of a story, what is told of it takes its time; the fleet need not be larger than it takes to see it. */
const chosen = typeof values.story === 'string' ? 'story' : quick ? 'quick' : 'whole';

export interface FleetOptions {
  nodes: number;
  minutes: number;
  /** Beats a second that the server is set to ask for. */
  rate: number;
  deaths: number;
  restarts: number;
  faltering: number;
  joins: number;
  relays: number;
  streams: number;
  seed: number;
  /** What befalls the servers meanwhile; see stories.ts. */
  story: string | undefined;
  /** Also tells which statements the database was at. */
  statements: boolean;
}

const defaults = sizes[chosen];
const sized = (name: keyof typeof defaults) => Number(values[name] ?? defaults[name]);

export const options: FleetOptions = {
  nodes: sized('nodes'),
  minutes: sized('minutes'),
  rate: sized('rate'),
  deaths: sized('deaths'),
  restarts: sized('restarts'),
  faltering: sized('faltering'),
  joins: sized('joins'),
  relays: Number(values.relays),
  streams: Number(values.streams),
  seed: Number(values.seed),
  story: typeof values.story === 'string' ? values.story : undefined,
  statements: values.statements === true,
};
