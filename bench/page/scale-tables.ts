/**
 * Renders docs/explanation/scale.md from the recorded figures: the method and figures of each
 * benchmark, and missed targets. Pure.
 */
import { type Figure, type Machine, shown } from '../harness/measure.ts';

export interface Recorded {
  benchmark: string;
  /** The command line; unknown for older records. */
  command?: string;
  machine: Machine;
  load: { before: number[]; after: number[] };
  figures: Omit<Figure, 'samples'>[];
  notes: string[];
}

/**
 * A line that a benchmark printed or that is already recorded. A printed one says whether it was a
 * quick run.
 */
export type Line = Omit<Recorded, 'machine'> & { quick?: boolean; machine?: Machine };

/** Why a line must not be published; undefined if it may. */
export function refusalOf({ quick, command, machine }: Line): string | undefined {
  if (quick || command?.split(' ').includes('--quick')) return 'is of a --quick run, which is for a first look only';
  if (!machine) return 'does not say on which machine it was taken; take it again';
  return undefined;
}

/** The recorded part of a line. */
export function recordOf(line: Line): Recorded {
  const refusal = refusalOf(line);
  const { benchmark, command, machine, load, figures, notes = [] } = line;
  if (refusal || !machine) throw new Error(`${benchmark} ${refusal}`);
  const kept = figures.map((figure) => ({ ...figure, samples: undefined, value: Number(figure.value.toPrecision(4)) }));
  const { before, after } = load;
  return { benchmark, ...(command && { command }), machine, load: { before, after }, figures: kept, notes };
}

/** One line per benchmark, so that a diff shows what was recorded again. */
export const writeRecords = (records: readonly Recorded[]): string =>
  records.map((line) => `${JSON.stringify(line)}\n`).join('');

export const readRecords = (text: string): Recorded[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => recordOf(JSON.parse(line) as Line));

interface Section {
  benchmark: string;
  title: string;
  command: string;
  how: string;
}

const sections: Section[] = [
  {
    benchmark: 'beat',
    title: 'One beat',
    command: 'node bench/beat.ts',
    how: 'Processor time of the server for one beat over HTTP, against Fastify with nothing behind it, the same body and validation, each in a process of its own and in turns. The database is counted apart.',
  },
  {
    benchmark: 'batches',
    title: 'Batches of a relay',
    command: 'node bench/batches.ts',
    how: 'Beats a second in batches of 100, stored, against the bare `INSERT … unnest` of the same rows into the same table.',
  },
  {
    benchmark: 'sessions',
    title: 'What a replica remembers',
    command: 'node bench/sessions.ts',
    how: 'Memory for each agent that a replica knows. The store is played here.',
  },
  {
    benchmark: 'fleet',
    title: 'A fleet that beats',
    command: 'node bench/fleet.ts',
    how: 'Honest agents in one process, as many as are told below, on the same cores as the server and the database. They say what our agent says, beat at the interval that the server assigned in its last answer, give or take a tenth (the interval is what 8,000 beats a second make of a fleet of that size, where it was not told otherwise), through relays that send 100 at once and keep what was not answered, some over a WebSocket each, and one in a hundred of the others by a call for each beat. The fleet is written into the store in bulk, as one that was beating until a moment ago: the server starts in front of it and meets every agent anew. Some die, some restart, some falter for most of their stale time, some join with a token meanwhile. "First contact" is until everybody has had time to be heard once; what comes after it is "once everybody is met". Verdicts are read from the evidence afterwards: any on a machine that did not die is false; one that is "held back" was right and had to wait, as after a time in which we could not hear ("our own gap"). Lateness counts from the last beat that was stored, or the end of our own gap, plus the stale time.',
  },
  {
    benchmark: 'fleet-restart',
    title: 'Everything killed and started again',
    command: 'node bench/fleet.ts --story restart --nodes 200000 --rate 8000 --minutes 4',
    how: 'Servers and database end by `kill -9` while the fleet beats and somebody makes changes. A beat that changes nothing is answered when it is heard and stored a moment later, so one that was answered just before the end may be missing here. Its machine tells the same with its next beat, which is soon enough: a single beat that is missing is no reason for a verdict, and where we could not hear for longer than an interval, silence counts from the end of that. What changes a status is stored before it is answered.',
  },
  {
    benchmark: 'fleet-store-down',
    title: 'The store stands still',
    command: 'node bench/fleet.ts --story store-down --nodes 200000 --rate 8000 --minutes 4',
    how: 'All processes of the database are stopped for a minute; no connection breaks, and nobody gets an answer.',
  },
  {
    benchmark: 'fleet-rolling',
    title: 'Two replicas, replaced by a newer version',
    command: 'node bench/fleet.ts --story rolling --nodes 200000 --rate 8000 --minutes 4',
    how: 'One replica after the other gives way to one that first adds columns to the tables of beats and nodes and builds an index, while the older one serves on. Then one is killed, and the other takes over. The newer version is this one with two more changes of the schema.',
  },
  {
    benchmark: 'fleet-crash-loop',
    title: 'Killed again and again',
    command: 'node bench/fleet.ts --story crash-loop --nodes 200000 --rate 8000 --minutes 4',
    how: 'The server ends by `kill -9` three times, eight seconds after one another, so that it meets the fleet anew each time before it has got over the last; the database stays. Judged as above.',
  },
  {
    benchmark: 'flat',
    title: 'A beat in a small fleet and in a large one',
    command: 'node bench/flat.ts',
    how: 'The same beats a second, in batches, to a replica with few nodes behind it and to one with many, side by side and by turns: all the processor time of the server and of the database for each beat, with whatever watches over such a fleet.',
  },
  {
    benchmark: 'registrations',
    title: 'A machine joins a small pool and a large one',
    command: 'node bench/registrations.ts',
    how: 'Machines join one pool by a token, one after another at a steady rate, and each says by its first beat that it is ready; then a rack joins at once. All the processor time of the server and of the database for each, without what both need at rest with such a fleet. The others are written in bulk and do not beat meanwhile.',
  },
  {
    benchmark: 'replicas',
    title: 'Where the limit lies with two replicas',
    command: 'node bench/replicas.ts',
    how: 'Beats in batches, offered faster and faster, to one replica and to two on the same database, until fewer are answered than are offered.',
  },
  {
    benchmark: 'readers',
    title: 'Those who watch',
    command: 'node bench/readers.ts',
    how: 'A thousand streams while five hundred things a second change, one of them stuck.',
  },
  {
    benchmark: 'lists',
    title: 'Lists and counts',
    command: 'node bench/lists.ts',
    how: 'Pages, counts and the view of the fleet, by its size.',
  },
  {
    benchmark: 'operations',
    title: 'Allocations at once',
    command: 'node bench/operations.ts',
    how: 'Allocations asked for at once over HTTP in a pool of machines that stand free, so that no driver takes any time, against bare runs of the engine with as many empty steps.',
  },
];

/** No figures: it must hold for any record. */
const forYou = `## What this means for you

| you ask | answer |
|---|---|
| how many machines a replica bears | it is beats that count, not machines: machines ÷ interval = beats a second. The interval grows with the fleet by itself ([pace](pace.md)): a larger fleet does not mean more beats, but a dead machine is found later, and each takes some memory ([how much](#what-a-replica-remembers)) |
| which \`--beat-rate\` | at most half of what a replica answers on your machine: see [where the limit lies](#where-the-limit-lies-with-two-replicas), and run it there. The other half is for people, for operations, and for the minutes after a restart, when every agent is met anew and a beat costs more ([first contact](#a-fleet-that-beats)). The default, 5000, is 50,000 machines that beat every 10 s |
| plain calls, a stream or a relay | plain calls, until something speaks against them. A [stream](../reference/agent.md#the-stream) saves the server about a third of a beat, and the long poll for tasks, for some memory while it is open; a replica holds 100,000. A [relay](../how-to/relay.md) where many machines stand together: a beat in a batch costs least by far (compare [one beat](#one-beat) with [batches](#batches-of-a-relay)), and only one machine needs a way to the control plane |
| when a second replica helps | when one replica's own thread is the limit (its process uses a whole core) and there are cores to spare; and always for the day on which the first one dies. Not when the cores or the database are the limit: both share the database, and on the same cores they share those too. See [replicas](../how-to/replicas.md) |
| what to do when the database is the limit | a larger interval (a smaller \`--beat-rate\`) and relays first; then a quicker database, on cores and disks of its own |`;

type Verdict = 'met' | '**missed**' | '';

const verdictOf = ({ value, target, at_least }: Recorded['figures'][number]): Verdict => {
  if (target === undefined && at_least === undefined) return '';
  const isMet = (target === undefined || value < target) && (at_least === undefined || value >= at_least);
  return isMet ? 'met' : '**missed**';
};

const aimOf = ({ unit, target, at_least }: Recorded['figures'][number]): string => {
  if (target !== undefined) return `< ${shown(target, unit)}`;
  return at_least === undefined ? '' : `≥ ${shown(at_least, unit)}`;
};

const cell = (text: string) => text.trim().replaceAll('|', '\\|');

function tableOf(figures: Recorded['figures']): string {
  const rows = figures.map((figure) => [
    figure.what,
    shown(figure.value, figure.unit),
    aimOf(figure),
    verdictOf(figure),
  ]);
  const lines = rows.map((row) => `| ${row.map(cell).join(' | ')} |`);
  return ['| figure | measured | target | |', '|---|---:|---:|---|', ...lines].join('\n');
}

const loadOf = ({ load }: Recorded) =>
  [load.before, load.after].map(([minute = 0]) => minute.toFixed(1)).join(' before, ');

const machineOf = ({ cores, memory_gb, architecture }: Machine) =>
  `${cores} cores (${architecture}) and ${memory_gb} GB of memory`;

function sectionOf({ title, command, how }: Section, recorded: Recorded | undefined, isOneOfSeveral: boolean): string {
  const head = `## ${title}\n\n${how} \`${command}\``;
  if (!recorded) return `${head}\n\n**Not recorded.**`;
  const notes = recorded.notes.map((note) => `- ${note}`).join('\n');
  const load = `Load of the machine, which counts this too: ${loadOf(recorded)} after.`;
  const otherwise =
    recorded.command && recorded.command !== command ? `**Taken otherwise**, by \`${recorded.command}\`.` : '';
  const where = isOneOfSeveral ? `Taken on a machine with ${machineOf(recorded.machine)}.` : '';
  return [head, otherwise, where, tableOf(recorded.figures), notes, load].filter((part) => part !== '').join('\n\n');
}

/** A figure that continues the previous one ("… 99 of 100") means nothing without it. */
function nameOf(figures: readonly Figure[], place: number): string {
  const { what } = figures[place] as Figure;
  const before = figures.slice(0, place).findLast((figure) => !figure.what.startsWith('…'));
  return what.startsWith('…') && before ? `${before.what} ${what}` : what;
}

function summaryOf(records: readonly Recorded[]): string {
  const judged = records.flatMap(({ benchmark, figures }) =>
    figures.map((figure, place) => ({ benchmark, figure, name: nameOf(figures, place), verdict: verdictOf(figure) })),
  );
  const met = judged.filter(({ verdict }) => verdict === 'met').length;
  const missed = judged.filter(({ verdict }) => verdict === '**missed**');
  const lines = missed.map(
    ({ benchmark, figure, name }) =>
      `- \`${benchmark}\`: ${name}: ${shown(figure.value, figure.unit).trim()}, wanted ${aimOf(figure).trim()}`,
  );
  const count = `${met} of ${met + missed.length} targets were met.${missed.length > 0 ? ' Missed:' : ''}`;
  return [count, ...(lines.length > 0 ? [lines.join('\n')] : [])].join('\n\n');
}

const wheresOf = (machines: readonly string[]): string =>
  machines.length === 1
    ? `Every figure is from one machine with ${machines[0]}, on which`
    : 'Figures are from several machines; on which one they were taken stands with them. On each,';

export function writePage(records: readonly Recorded[]): string {
  const recorded = new Map(records.map((each) => [each.benchmark, each]));
  const machines = [...new Set(records.map(({ machine }) => machineOf(machine)))];
  return `${[
    '# How far it goes, measured',
    `${wheresOf(machines)} server, embedded PostgreSQL and whatever makes the load share the cores. Each ratio is against a baseline taken in the same run. What is played and not real is said where it is. Times depend on the machine and on what else it does; the ratios and the processor time less so.`,
    'To see for yourself, run the command that stands with each section, best on a machine that does nothing else. With `--quick` most take a smaller size and a minute or two: good for a first look, not for comparing. With `--help` a benchmark tells what it does, its options and how long it takes, and starts nothing; with `--json` it prints one line for programs.',
    'This page is made by `node bench/scale-page.ts` from `bench/page/scale.jsonl`, and a test holds the two together. Put what a benchmark prints with `--json` into a directory as `NAME.json`, and `node bench/scale-page.ts --from DIRECTORY` records it and writes the page anew; what is not in the directory stays as it was. A run with `--quick` is refused.',
    forYou,
    `## What was aimed at\n\n${summaryOf(records)}`,
    ...sections.map((section) => sectionOf(section, recorded.get(section.benchmark), machines.length > 1)),
  ].join('\n\n')}\n`;
}

/** The previous records with the new ones replaced. */
export function merge(before: readonly Recorded[], fresh: readonly Recorded[]): Recorded[] {
  const all = new Map([...before, ...fresh].map((each) => [each.benchmark, each]));
  const order = sections.map(({ benchmark }) => benchmark);
  return [...all.values()].toSorted((a, b) => order.indexOf(a.benchmark) - order.indexOf(b.benchmark));
}
