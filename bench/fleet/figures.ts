/** Computes the figures of a run with their targets, and notes on failures and the bottleneck. */
import { cpus } from 'node:os';
import { type Figure, quantile } from '../harness/measure.ts';
import type { FleetEvents } from './events.ts';
import type { Judgement } from './judge.ts';
import type { Load } from './load.ts';
import type { FleetOptions } from './options.ts';
import { type CpuUsage, cpuUsageBetween, type Reading } from './processors.ts';
import { type ReadTimes, readNames } from './reader.ts';
import type { WriteResult } from './writer.ts';

type LoadReading = Reading & { sent: number; answered: number };

export interface Run {
  options: FleetOptions;
  interval: number;
  startSeconds: number;
  readings: LoadReading[];
  load: Load;
  events: FleetEvents;
  /** The response times of the reader; a story has none. */
  reads: ReadTimes | undefined;
  judgement: Judgement;
  storyFigures: Figure[];
  /** The changes of the writer; only a story has one. */
  written: WriteResult | undefined;
}

const targets = { lateSeconds: 2, residentMb: 1500, readMs: 100 };
/** The share of a core from which a single-threaded process counts as saturated. */
const saturatedShare = 0.9;
/** A rate counts as sustained if at least this share of its heartbeats is answered. */
const sustainedShare = 0.97;

const spread = (what: string, values: number[], unit: 's' | 'ms', target?: number): Figure[] =>
  values.length === 0
    ? []
    : [0.5, 0.99, 1].map((share) => ({
        what: `${what}, ${share === 1 ? 'max' : `p${share * 100}`}`,
        value: quantile(values, share),
        unit,
        ...(share === 0.99 && target !== undefined && { target }),
      }));

function describeBottleneck(use: CpuUsage, answered: number, wanted: number): string {
  if (answered >= sustainedShare * wanted) return 'nothing: the rate was sustained';
  if (Math.max(...use.servers) >= saturatedShare) return 'the server: its single thread was saturated';
  if (use.fleet >= saturatedShare) return 'the load generator: it could not send more';
  if (use.idle < (1 - saturatedShare) * cpus().length) return 'the machine: all its cores were busy';
  return 'waiting: no process was saturated';
}

/** The answered heartbeats and the CPU use between two readings. */
function phaseFigures(
  name: string,
  from: LoadReading | undefined,
  to: LoadReading | undefined,
  wanted: number,
): Figure[] {
  if (!from || !to || from === to) return [];
  const use = cpuUsageBetween(from, to);
  const seconds = (to.atMs - from.atMs) / 1000;
  const answered = (to.answered - from.answered) / seconds;
  const perBeat = (processors: number) => (processors / answered) * 1e6;
  const server = use.servers.reduce((sum, each) => sum + each, 0);
  return [
    { what: `${name}: heartbeats answered`, value: answered, unit: 'beats/s', at_least: sustainedShare * wanted },
    { what: '… CPU time of the server, per heartbeat', value: perBeat(server), unit: 'µs' },
    { what: '… of the database, per heartbeat', value: perBeat(use.database), unit: 'µs' },
    { what: '… of the load generator, per heartbeat', value: perBeat(use.fleet), unit: 'µs' },
    { what: '… CPUs used: server', value: server, unit: '×' },
    { what: '… database', value: use.database, unit: '×' },
    { what: '… load generator', value: use.fleet, unit: '×' },
    { what: '… other processes', value: use.others, unit: '×' },
    { what: '… idle', value: use.idle, unit: '×' },
  ];
}

const secondsOf = (gaps: Judgement['gaps']) => gaps.map(({ seconds }) => `${seconds.toFixed(1)} s`).join(', ');

const formatCounts = (counts: ReadonlyMap<string, number>) => [...counts].map(([what, count]) => `${what}: ${count}`);

const writerFigures = ({ acknowledged, lost, unfinished, refused }: WriteResult): Figure[] => [
  { what: 'changes acknowledged during the run', value: acknowledged, unit: '' },
  { what: '… refused, not counted', value: refused, unit: '' },
  { what: '… acknowledged but lost', value: lost.length, unit: '', target: 1 },
  { what: '… allocations that never became active', value: unfinished.length, unit: '', target: 1 },
];

export function figuresOf(run: Run): { figures: Figure[]; notes: string[] } {
  const { options, interval, readings, load, events, reads, judgement } = run;
  const wanted = options.nodes / interval;
  // First contact is more expensive: the server loads the session of each agent.
  const firstContactEnd = Math.min(readings.length - 1, Math.ceil(interval * 1.2));
  const [first, middle, last] = [readings[0], readings[firstContactEnd], readings.at(-1)];
  const figures: Figure[] = [
    { what: 'nodes', value: options.nodes, unit: '' },
    { what: 'assigned interval', value: interval, unit: 's' },
    { what: 'time until the servers are ready', value: run.startSeconds, unit: 's' },
    { what: 'false verdicts', value: judgement.false_verdicts.length, unit: '', target: 1 },
    { what: 'verdicts held back', value: judgement.held.length, unit: '', target: 1 },
    { what: 'agents that died', value: events.dead.size, unit: '' },
    { what: '… not detected', value: judgement.missed.length, unit: '', target: 1 },
    ...spread('… detected after the end of their stale time', judgement.lateness_seconds, 's', targets.lateSeconds),
    {
      what: 'heartbeats answered but not stored',
      value: judgement.lost_beats,
      unit: '',
      // A story has no target: a killed server loses heartbeats that it has not stored, and the
      // next heartbeat of each agent makes up for them.
      ...(!options.story && { target: 1 }),
    },
    {
      what: 'memory of the server, peak',
      value: Math.max(...readings.flatMap(({ residentMb }) => residentMb).filter(Number.isFinite)),
      unit: 'MB',
      target: targets.residentMb,
    },
    ...run.storyFigures,
    ...(run.written ? writerFigures(run.written) : []),
    ...(reads ? readNames.flatMap((name) => spread(`read ${name}`, reads.all[name], 'ms', targets.readMs)) : []),
    ...(reads
      ? readNames.flatMap((name) =>
          spread(`… after first contact: ${name}`, reads.afterwards[name], 'ms', targets.readMs),
        )
      : []),
    ...spread('heartbeat, from due to answered', load.tally.waitedMs, 'ms'),
    ...spread('registration of a new machine', events.joinMs, 'ms'),
    // Most stories replace the servers, so CPU time cannot be compared over the run of a story.
    ...(options.story ? [] : phaseFigures('first contact', first, middle, wanted)),
    ...(options.story ? [] : phaseFigures('after first contact', middle, last, wanted)),
  ];
  const use = middle && last && middle !== last ? cpuUsageBetween(middle, last) : undefined;
  const rate = middle && last ? ((last.answered - middle.answered) * 1000) / (last.atMs - middle.atMs) : 0;
  const notes = [
    ...judgement.false_verdicts.slice(0, 10).map((each) => `false verdict: ${each}`),
    ...(judgement.gaps.length > 0
      ? [`gaps in which the servers received no heartbeats: ${secondsOf(judgement.gaps)}`]
      : []),
    `${load.tally.answered} heartbeats were answered: ${load.tally.called} sent as single calls, the others through ${options.streams} streams (one agent each) and ${options.relays} relays`,
    ...formatCounts(load.tally.failed).map((each) => `failed heartbeat requests, ${each}`),
    ...formatCounts(load.tally.refused).map((each) => `refused heartbeats, ${each}`),
    ...formatCounts(events.registrations).map((each) => `registrations, ${each}`),
    ...[...new Set(reads?.failed ?? [])].slice(0, 5).map((each) => `a read failed: ${each}`),
    ...(use && !options.story ? [`limited by ${describeBottleneck(use, rate, wanted)}`] : []),
  ];
  return { figures, notes };
}
