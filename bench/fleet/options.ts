/** Declares the options of the fleet benchmark: fleet size, heartbeat rate and events. */
import { common, readOptions } from '../harness/options.ts';

/** The sizes with and without `--quick`. */
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

/** The same figure for each size, for --help. */
const sized = (name: keyof (typeof sizes)['whole'], what: string) =>
  `${what} (${sizes.whole[name]}; --quick: ${sizes.quick[name]}; a story: ${sizes.story[name]})`;

export const storyNames = ['restart', 'store-down', 'rolling', 'crash-loop'] as const;

const commandLine = readOptions(new URL('../fleet.ts', import.meta.url).href, {
  takes: 'about twelve minutes; with --quick two minutes; a story five',
  options: {
    json: common.json,
    quick: common.quick,
    story: {
      kind: 'choice',
      among: storyNames,
      what: 'what befalls the servers meanwhile, with somebody who changes things all the time',
    },
    nodes: { kind: 'count', what: sized('nodes', 'machines that beat from the beginning') },
    minutes: { kind: 'amount', what: sized('minutes', 'for how long they are watched') },
    rate: { kind: 'amount', what: sized('rate', 'beats a second that the servers are set to ask for') },
    deaths: { kind: 'tally', what: sized('deaths', 'how many die') },
    restarts: { kind: 'tally', what: sized('restarts', 'how many restart') },
    faltering: { kind: 'tally', what: sized('faltering', 'how many are silent for most of their stale time') },
    joins: { kind: 'tally', what: sized('joins', 'how many join meanwhile') },
    relays: { kind: 'count', otherwise: 20, what: 'through how many relays they beat' },
    streams: { kind: 'tally', otherwise: 200, what: 'how many beat over a stream of their own' },
    'one-calls-in': {
      kind: 'tally',
      otherwise: 100,
      what: 'of the others, one in so many beats by calls of its own; 0: none',
    },
    seed: { kind: 'tally', otherwise: 1, what: 'which fate is drawn' },
    statements: { kind: 'flag', what: 'also report which statements the database was running' },
  },
});

/** A story takes its own time; its fleet can be smaller. */
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
