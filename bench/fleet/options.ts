/** Declares the options of the fleet benchmark: fleet size, heartbeat rate and events. */
import { common, readOptions } from '../harness/options.ts';

/** The default sizes: with `--quick`, of a story, and of a whole run. */
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

/** A description with the default of each size, for --help. */
const withDefaults = (name: keyof (typeof sizes)['whole'], what: string) =>
  `${what} (${sizes.whole[name]}; --quick: ${sizes.quick[name]}; a story: ${sizes.story[name]})`;

export const storyNames = ['restart', 'store-down', 'rolling', 'crash-loop'] as const;

const commandLine = readOptions(new URL('../fleet.ts', import.meta.url).href, {
  duration: 'about twelve minutes; with --quick two minutes; a story five',
  options: {
    json: common.json,
    quick: common.quick,
    story: {
      kind: 'choice',
      choices: storyNames,
      description: 'a failure of the servers during the run, while a client makes changes',
    },
    nodes: { kind: 'count', description: withDefaults('nodes', 'machines at the start') },
    minutes: { kind: 'amount', description: withDefaults('minutes', 'length of the run in minutes') },
    rate: {
      kind: 'amount',
      description: withDefaults('rate', 'heartbeats per second that the servers are configured for'),
    },
    deaths: { kind: 'tally', description: withDefaults('deaths', 'machines that die') },
    restarts: { kind: 'tally', description: withDefaults('restarts', 'machines that restart') },
    faltering: {
      kind: 'tally',
      description: withDefaults('faltering', 'machines that are silent for most of their stale time'),
    },
    joins: { kind: 'tally', description: withDefaults('joins', 'machines that join during the run') },
    relays: { kind: 'count', default: 20, description: 'number of relays' },
    streams: { kind: 'tally', default: 200, description: 'machines that use a stream each' },
    'one-calls-in': {
      kind: 'tally',
      default: 100,
      description: 'of the other machines, one in this many sends single calls; 0 means none',
    },
    seed: { kind: 'tally', default: 1, description: 'seed of the random events' },
    statements: { kind: 'flag', description: 'also report which statements the database was running' },
  },
});

/** A story has sizes of its own, because its failures take time and need no large fleet. */
const defaults = sizes[commandLine.story ? 'story' : commandLine.quick ? 'quick' : 'whole'];

const optionOrDefault = (name: keyof typeof defaults): number => commandLine[name] ?? defaults[name];

export const options = {
  ...commandLine,
  nodes: optionOrDefault('nodes'),
  minutes: optionOrDefault('minutes'),
  rate: optionOrDefault('rate'),
  deaths: optionOrDefault('deaths'),
  restarts: optionOrDefault('restarts'),
  faltering: optionOrDefault('faltering'),
  joins: optionOrDefault('joins'),
};

export type FleetOptions = typeof options;
