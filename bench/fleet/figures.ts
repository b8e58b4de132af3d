/** The figures of a run with their targets, and notes on what happened and what was the limit. */
import { cpus } from 'node:os';
import { type Figure, quantile } from '../harness/measure.ts';
import type { Fate } from './fate.ts';
import type { Judgement } from './judge.ts';
import type { Load } from './load.ts';
import type { FleetOptions } from './options.ts';
import { type Reading, type Use, useBetween } from './processors.ts';
import { type ReadTimes, readNames } from './reader.ts';
import type { Written } from './writer.ts';

type Reading1 = Reading & { sent: number; answered: number };

export interface Run {
  options: FleetOptions;
  interval: number;
  startSeconds: number;
  readings: Reading1[];
  load: Load;
  fate: Fate;
  /** Times of the concurrent reader, if there was one. */
  reads: ReadTimes | undefined;
  judgement: Judgement;
  /** Figures of a story, and the outcome of the changes that the writer made. */
  storyFigures: Figure[];
  written: Written | undefined;
}

const targets = { lateSeconds: 2, residentMb: 1500, readMs: 100 };
/** The share of a core from which a single-threaded process counts as saturated. */
const busy = 0.9;
const keptShare = 0.97;

const spread = (what: string, values: number[], unit: 's' | 'ms', target?: number): Figure[] =>
  values.length === 0
    ? []
    : [0.5, 0.99, 1].map((share) => ({
        what: `${what}, ${share === 1 ? 'max' : `p${share * 100}`}`,
        value: quantile(values, share),
        unit,
        ...(share === 0.99 && target !== undefined && { target }),
      }));

/** Names the process that was the bottleneck. */
function limitOf(use: Use, answered: number, wanted: number): string {
  if (answered >= keptShare * wanted) return 'nothing: the rate was kept';
  if (Math.max(...use.servers) >= busy) return 'the server: its one thread was always at work';
  if (use.fleet >= busy) return 'the fleet: the generator could not send more';
  if (use.idle < (1 - busy) * cpus().length) return 'the machine: server, database, fleet and others share its cores';
  return 'waiting: nobody was always at work';
}

function phase(name: string, from: Reading1 | undefined, to: Reading1 | undefined, wanted: number): Figure[] {
  if (!from || !to || from === to) return [];
  const use = useBetween(from, to);
  const seconds = (to.atMs - from.atMs) / 1000;
  const answered = (to.answered - from.answered) / seconds;
  const perBeat = (processors: number) => (processors / answered) * 1e6;
  const server = use.servers.reduce((sum, each) => sum + each, 0);
  return [
    { what: `${name}: beats answered`, value: answered, unit: 'beats/s', at_least: keptShare * wanted },
    { what: '… processor of the server, a beat', value: perBeat(server), unit: 'µs' },
    { what: '… of the database, a beat', value: perBeat(use.database), unit: 'µs' },
    { what: '… of the fleet, a beat', value: perBeat(use.fleet), unit: 'µs' },
    { what: '… processors: server', value: server, unit: '×' },
    { what: '… database', value: use.database, unit: '×' },
    { what: '… fleet', value: use.fleet, unit: '×' },
    { what: '… others on the machine', value: use.others, unit: '×' },
    { what: '… idle', value: use.idle, unit: '×' },
  ];
}

const secondsOf = (gaps: Judgement['gaps']) => gaps.map(({ seconds }) => `${seconds.toFixed(1)} s`).join(', ');

const listed = (counts: ReadonlyMap<string, number>) => [...counts].map(([what, count]) => `${what}: ${count}`);

const ofWriter = ({ acknowledged, lost, unfinished, refused }: Written): Figure[] => [
  { what: 'changes acknowledged meanwhile', value: acknowledged, unit: '' },
  { what: '… refused, and so not counted', value: refused, unit: '' },
  { what: '… acknowledged and lost', value: lost.length, unit: '', target: 1 },
  { what: '… allocations not active in the end', value: unfinished.length, unit: '', target: 1 },
];

export function figuresOf(run: Run): { figures: Figure[]; words: string[] } {
  const { options, interval, readings, load, fate, reads, judgement } = run;
  const wanted = options.nodes / interval;
  // First contact is more expensive: the server loads the session of each agent.
  const met = Math.min(readings.length - 1, Math.ceil(interval * 1.2));
  const [first, middle, last] = [readings[0], readings[met], readings.at(-1)];
  const figures: Figure[] = [
    { what: 'nodes', value: options.nodes, unit: '' },
    { what: 'interval assigned', value: interval, unit: 's' },
    { what: 'start of the server in front of the fleet', value: run.startSeconds, unit: 's' },
    { what: 'false verdicts', value: judgement.false_verdicts.length, unit: '', target: 1 },
    { what: 'verdicts held back', value: judgement.held.length, unit: '', target: 1 },
    { what: 'deaths planted', value: fate.dead.size, unit: '' },
    { what: '… not found', value: judgement.missed.length, unit: '', target: 1 },
    ...spread('… late past their stale time', judgement.lateness_seconds, 's', targets.lateSeconds),
    {
      what: 'answered beats that were not stored',
      value: judgement.lost_beats,
      unit: '',
      // A killed server loses heartbeats it had not stored; the next ones report the same.
      ...(!options.story && { target: 1 }),
    },
    {
      what: 'memory of the server, most',
      value: Math.max(...readings.flatMap(({ residentMb }) => residentMb).filter(Number.isFinite)),
      unit: 'MB',
      target: targets.residentMb,
    },
    ...run.storyFigures,
    ...(run.written ? ofWriter(run.written) : []),
    ...(reads ? readNames.flatMap((name) => spread(`read ${name}`, reads.taken[name], 'ms', targets.readMs)) : []),
    ...(reads
      ? readNames.flatMap((name) =>
          spread(`… once everybody is met: ${name}`, reads.afterwards[name], 'ms', targets.readMs),
        )
      : []),
    ...spread('a beat from when it was due to its answer', load.tally.waitedMs, 'ms'),
    ...spread('registration of a newcomer', fate.joinMs, 'ms'),
    // In a story processes come and go, and their CPU time with them.
    ...(options.story ? [] : phase('first contact', first, middle, wanted)),
    ...(options.story ? [] : phase('after that', middle, last, wanted)),
  ];
  const use = middle && last && middle !== last ? useBetween(middle, last) : undefined;
  const rate = middle && last ? ((last.answered - middle.answered) * 1000) / (last.atMs - middle.atMs) : 0;
  const words = [
    ...judgement.false_verdicts.slice(0, 10).map((each) => `false: ${each}`),
    ...(judgement.gaps.length > 0 ? [`our own gaps in hearing: ${secondsOf(judgement.gaps)}`] : []),
    `of ${load.tally.answered} beats that were answered, ${load.tally.called} came by calls of their own; ${options.streams} agents had a stream, ${options.relays} relays spoke for the others`,
    ...listed(load.tally.failed).map((each) => `requests with beats that failed, ${each}`),
    ...listed(load.tally.refused).map((each) => `beats refused, ${each}`),
    ...listed(fate.answers).map((each) => `registrations, ${each}`),
    ...[...new Set(reads?.failed ?? [])].slice(0, 5).map((each) => `a read failed: ${each}`),
    ...(use && !options.story ? [`limited by ${limitOf(use, rate, wanted)}`] : []),
  ];
  return { figures, words };
}
