/**
 * Renders docs/explanation/scale.md from the recorded figures. The page shows the method and the
 * figures of each benchmark, and lists missed targets. Pure.
 */
import { type Figure, formatValue, type Machine } from '../harness/measure.ts';

export interface BenchmarkRecord {
  benchmark: string;
  /** The command line; unknown for older records. */
  command?: string;
  machine: Machine;
  load: { before: number[]; after: number[] };
  figures: Omit<Figure, 'samples'>[];
  notes: string[];
}

/**
 * A line that a benchmark printed, or one that is already recorded. Only a printed line has
 * `quick`, because quick runs are never recorded.
 */
export type Line = Omit<BenchmarkRecord, 'machine'> & { quick?: boolean; machine?: Machine };

/** Returns why a line must not be recorded; undefined if it may. */
export function recordingRefusal({ quick, command, machine }: Line): string | undefined {
  if (quick || command?.split(' ').includes('--quick')) return 'is of a --quick run, which is for a first look only';
  if (!machine) return 'does not say on which machine it was measured; run the benchmark again';
  return undefined;
}

/** The recorded part of a line. */
export function recordOf(line: Line): BenchmarkRecord {
  const refusal = recordingRefusal(line);
  const { benchmark, command, machine, load, figures, notes = [] } = line;
  if (refusal || !machine) throw new Error(`${benchmark} ${refusal}`);
  const recordedFigures = figures.map((figure) => ({
    ...figure,
    samples: undefined,
    value: Number(figure.value.toPrecision(4)),
  }));
  const { before, after } = load;
  return { benchmark, ...(command && { command }), machine, load: { before, after }, figures: recordedFigures, notes };
}

/** One line per benchmark, so that a diff shows which benchmark was recorded again. */
export const writeRecords = (records: readonly BenchmarkRecord[]): string =>
  records.map((line) => `${JSON.stringify(line)}\n`).join('');

export const readRecords = (text: string): BenchmarkRecord[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => recordOf(JSON.parse(line) as Line));

interface Section {
  benchmark: string;
  title: string;
  command: string;
  /** Explains the method, as Markdown. */
  method: string;
}

const sections: Section[] = [
  {
    benchmark: 'beat',
    title: 'One heartbeat',
    command: 'bin/run bench/beat.ts',
    method: `CPU time of the server for one heartbeat over HTTP. The baseline is Fastify with an empty handler, the same body and validation. Each runs in its own process, in turns. The database is measured separately.`,
  },
  {
    benchmark: 'batches',
    title: 'Batches of a relay',
    command: 'bin/run bench/batches.ts',
    method: `Heartbeats per second that are stored when they arrive in batches of 100. The baseline is the bare \`INSERT … unnest\` of the same rows into the same table.`,
  },
  {
    benchmark: 'sessions',
    title: 'Memory of a replica',
    command: 'bin/run bench/sessions.ts',
    method:
      'Memory that a replica needs for the session of each agent, and the time to load all sessions. The store is simulated here.',
  },
  {
    benchmark: 'fleet',
    title: 'A whole fleet, simulated',
    command: 'bin/run bench/fleet.ts',
    method: `One process simulates the agents, on the same cores as the server and the database. The agents send the same heartbeats as our agent, at the assigned interval ± 10 %. By default the whole fleet sends 8,000 heartbeats per second.

Most agents use relays, which send 100 heartbeats at once and retry unanswered ones. Some agents have a WebSocket each. One in a hundred of the others sends a request per heartbeat.

The fleet is written into the store in bulk, as if it had been running until a moment ago. The server then starts and loads the session of each agent with its first heartbeat. "First contact" lasts until every agent had time to send a heartbeat.

During the run some agents die, some restart, some are silent for most of their stale time, and some join with a token.

Verdicts are read from the evidence afterwards. A verdict on a machine that did not die is false. A verdict that is "held back" was stopped by the brake.

"Detected after the end of their stale time" is the time from that end to the verdict. The stale time starts at the last stored heartbeat, or at the end of a gap in which the server received no heartbeats.`,
  },
  {
    benchmark: 'fleet-restart',
    title: 'Everything killed and started again',
    command: 'bin/run bench/fleet.ts --story restart --nodes 200000 --rate 8000 --minutes 4',
    method: `Servers and database are killed with \`kill -9\` while the fleet sends heartbeats and a client makes changes. A change of a status is stored before it is answered.

A heartbeat that changes nothing is answered on arrival and stored a moment later, so the last heartbeats before the kill may be missing. The next heartbeat repeats the report, and a single missing heartbeat causes no verdict. After a gap longer than an interval, silence counts from the end of the gap.`,
  },
  {
    benchmark: 'fleet-store-down',
    title: 'The database freezes for a minute',
    command: 'bin/run bench/fleet.ts --story store-down --nodes 200000 --rate 8000 --minutes 4',
    method:
      'All processes of the database are frozen for a minute. No connection breaks, and no statement is answered.',
  },
  {
    benchmark: 'fleet-rolling',
    title: 'Two replicas, replaced by a newer version',
    command: 'bin/run bench/fleet.ts --story rolling --nodes 200000 --rate 8000 --minutes 4',
    method: `Each replica in turn is replaced by a newer version, which is this version with two more migrations. The newer replica first adds columns to the tables of heartbeats and nodes and builds an index, while the older replica serves. Then one replica is killed, and the other takes over.`,
  },
  {
    benchmark: 'fleet-crash-loop',
    title: 'Killed again and again',
    command: 'bin/run bench/fleet.ts --story crash-loop --nodes 200000 --rate 8000 --minutes 4',
    method: `The server is killed with \`kill -9\` three times, eight seconds apart, so each kill comes before the server has loaded all sessions again. The database keeps running.`,
  },
  {
    benchmark: 'flat',
    title: 'A heartbeat in a small fleet and in a large one',
    command: 'bin/run bench/flat.ts',
    method: `Batches of heartbeats go at the same rate to a replica with few nodes and to one with many, in turns. The figure is all CPU time of server and database per heartbeat, including the supervision of the fleet.`,
  },
  {
    benchmark: 'registrations',
    title: 'A machine joins a small pool and a large one',
    command: 'bin/run bench/registrations.ts',
    method: `Machines join one pool with a token, at a steady rate, and each reports ready with its first heartbeat. Then many machines join at once, like a rack. The figure is the CPU time of server and database per machine, without their idle load. The machines that are already in the pool send no heartbeats.`,
  },
  {
    benchmark: 'replicas',
    title: 'Where the limit lies with two replicas',
    command: 'bin/run bench/replicas.ts',
    method: `Batches of heartbeats go at increasing rates to one replica and to two replicas on the same database, until fewer heartbeats are answered than sent.`,
  },
  {
    benchmark: 'readers',
    title: 'Event streams',
    command: 'bin/run bench/readers.ts',
    method:
      'The delay from a change to the readers of event streams, with a thousand readers and five hundred changes per second. One run has an additional reader that stops reading. The baseline is a bare server that sends the same number of bytes.',
  },
  {
    benchmark: 'lists',
    title: 'Lists and counts',
    command: 'bin/run bench/lists.ts',
    method:
      'The time to read pages and counts from fleets of different sizes, while heartbeats are written. The baseline is a read of fifty nodes by primary key.\n\nTriggers write a row for each change of a count. The last figures show the cost of these triggers, of merging their rows into one per count, and of comparing the counts with the rows of the tables.',
  },
  {
    benchmark: 'operations',
    title: 'Allocations at once',
    command: 'bin/run bench/operations.ts',
    method: `Simultaneous allocations over HTTP in a pool of free machines, so that no time of a driver is included. The baseline is the bare engine, running as many operations with as many empty steps.`,
  },
];

/** The advice names no figures, because it must hold for any record. */
const advice = [
  '## Use these figures',
  '**How many machines can a replica supervise?** Heartbeats count, not machines: machines ÷ interval = heartbeats a second. The interval grows with the fleet ([pace](pace.md)). So a larger fleet does not send more heartbeats, but a dead machine is found later, and each machine takes some [memory](#memory-of-a-replica).',
  '**Which `--beat-rate`?** At most half of what a replica answers on your machine: run [the limit](#where-the-limit-lies-with-two-replicas) there. The other half is for people, for operations, and for the minutes after a restart, when a heartbeat costs more ([first contact](#a-whole-fleet-simulated)). The default, 5000, fits 50,000 machines at an interval of 10 s.',
  '**Plain requests, a stream or a relay?** Start with plain requests.',
  '- A [stream](../reference/agent.md#the-stream) makes a heartbeat cost the server about a third less, and replaces the long poll for tasks. Each open stream takes some memory. A replica holds up to 100,000 streams.\n- A [relay](../how-to/relay.md) suits many machines in one place. A heartbeat in a batch costs least by far (compare [one heartbeat](#one-heartbeat) with [batches](#batches-of-a-relay)), and only one machine needs access to the control plane.',
  '**When does a second replica help?** When one replica is the limit and cores are idle: its process uses a whole core, or it waits for the store while the database has room. It also takes over when the first one dies. It does not help when the cores or the database are saturated: replicas share them. See [replicas](../how-to/replicas.md).',
  '**The database is the limit?** Use a longer interval (a smaller `--beat-rate`) and relays first; then a faster database, on its own cores and disks.',
].join('\n\n');

type Verdict = 'met' | '**missed**' | '';

const verdictOf = ({ value, target, at_least }: BenchmarkRecord['figures'][number]): Verdict => {
  if (target === undefined && at_least === undefined) return '';
  const isMet = (target === undefined || value < target) && (at_least === undefined || value >= at_least);
  return isMet ? 'met' : '**missed**';
};

const targetOf = ({ unit, target, at_least }: BenchmarkRecord['figures'][number]): string => {
  if (target !== undefined) return `< ${formatValue(target, unit)}`;
  return at_least === undefined ? '' : `≥ ${formatValue(at_least, unit)}`;
};

const cell = (text: string) => text.trim().replaceAll('|', '\\|');

function tableOf(figures: BenchmarkRecord['figures']): string {
  const rows = figures.map((figure) => [
    figure.what,
    formatValue(figure.value, figure.unit),
    targetOf(figure),
    verdictOf(figure),
  ]);
  const lines = rows.map((row) => `| ${row.map(cell).join(' | ')} |`);
  return ['| figure | measured | target | |', '|---|---:|---:|---|', ...lines].join('\n');
}

const loadOf = ({ load }: BenchmarkRecord) =>
  [load.before, load.after].map(([minute = 0]) => minute.toFixed(1)).join(' before, ');

const machineOf = ({ cores, memory_gb, architecture }: Machine) =>
  `${cores} cores (${architecture}) and ${memory_gb} GB of memory`;

function sectionOf(
  { title, command, method }: Section,
  recorded: BenchmarkRecord | undefined,
  severalMachines: boolean,
): string {
  const head = `## ${title}\n\n${method}\n\n\`\`\`sh\n${command}\n\`\`\``;
  if (!recorded) return `${head}\n\n**Not recorded.**`;
  const notes = recorded.notes.map((note) => `- ${note}`).join('\n');
  const load = `Load of the machine, including this run: ${loadOf(recorded)} after.`;
  const commandNote =
    recorded.command && recorded.command !== command ? `**Recorded differently**, by \`${recorded.command}\`.` : '';
  const machineNote = severalMachines ? `Recorded on a machine with ${machineOf(recorded.machine)}.` : '';
  return [head, commandNote, machineNote, tableOf(recorded.figures), notes, load]
    .filter((part) => part !== '')
    .join('\n\n');
}

/** The label of a figure. A label such as "… p99" gets the label that it continues as a prefix. */
function nameOf(figures: readonly Figure[], place: number): string {
  const { what } = figures[place] as Figure;
  const before = figures.slice(0, place).findLast((figure) => !figure.what.startsWith('…'));
  return what.startsWith('…') && before ? `${before.what} ${what}` : what;
}

function summaryOf(records: readonly BenchmarkRecord[]): string {
  const judged = records.flatMap(({ benchmark, figures }) =>
    figures.map((figure, place) => ({ benchmark, figure, name: nameOf(figures, place), verdict: verdictOf(figure) })),
  );
  const met = judged.filter(({ verdict }) => verdict === 'met').length;
  const missed = judged.filter(({ verdict }) => verdict === '**missed**');
  const lines = missed.map(
    ({ benchmark, figure, name }) =>
      `- \`${benchmark}\`: ${name}: ${formatValue(figure.value, figure.unit).trim()}, wanted ${targetOf(figure).trim()}`,
  );
  const count = `${met} of ${met + missed.length} targets were met.${missed.length > 0 ? ' Missed:' : ''}`;
  return [count, ...(lines.length > 0 ? [lines.join('\n')] : [])].join('\n\n');
}

const machinesSentence = (machines: readonly string[]): string =>
  machines.length === 1
    ? `Every figure is from one machine with ${machines[0]}.`
    : 'Figures are from several machines, named with each.';

export function writePage(records: readonly BenchmarkRecord[]): string {
  const recorded = new Map(records.map((each) => [each.benchmark, each]));
  const machines = [...new Set(records.map(({ machine }) => machineOf(machine)))];
  return `${[
    '# Scale, measured',
    'For operators who plan a fleet: how far one machine goes, and the advice that follows from it.',
    `${machinesSentence(machines)} Server, embedded PostgreSQL and the load generator share its cores. Each ratio is against a baseline of the same run. Simulated parts are marked. Times depend on the machine and its other work; ratios and CPU time less so.`,
    'Each section has its command; run it on an idle machine. `--quick` takes a smaller size and a minute or two, for a first look, not for comparison. `--help` prints the options and the duration. `--json` prints one line of JSON.',
    '`bin/run bench/scale-page.ts` writes this page from `bench/page/scale.jsonl`; a test compares them. To record a run, save its `--json` output in a directory as `NAME.json` and run `bin/run bench/scale-page.ts --from DIRECTORY`. Other records stay. A run with `--quick` is refused.',
    advice,
    `## Targets\n\n${summaryOf(records)}`,
    ...sections.map((section) => sectionOf(section, recorded.get(section.benchmark), machines.length > 1)),
  ].join('\n\n')}\n`;
}

/** Replaces the previous record of each benchmark that was recorded again. */
export function merge(before: readonly BenchmarkRecord[], newRecords: readonly BenchmarkRecord[]): BenchmarkRecord[] {
  const byBenchmark = new Map([...before, ...newRecords].map((each) => [each.benchmark, each]));
  const order = sections.map(({ benchmark }) => benchmark);
  return [...byBenchmark.values()].toSorted((a, b) => order.indexOf(a.benchmark) - order.indexOf(b.benchmark));
}
