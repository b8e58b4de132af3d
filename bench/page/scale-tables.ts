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
    how: `Processor time of the server for one heartbeat over HTTP. The baseline is Fastify with an empty handler, the same body and validation. Each runs in its own process, in turns. The database is counted separately.`,
  },
  {
    benchmark: 'batches',
    title: 'Batches of a relay',
    command: 'node bench/batches.ts',
    how: `Heartbeats a second in batches of 100, stored, against the bare \`INSERT … unnest\` of the same rows into the same table.`,
  },
  {
    benchmark: 'sessions',
    title: 'Memory of a replica',
    command: 'node bench/sessions.ts',
    how: 'Memory for each agent that a replica caches. The store is simulated here.',
  },
  {
    benchmark: 'fleet',
    title: 'A fleet that beats',
    command: 'node bench/fleet.ts',
    how: `Agents in one process, on the same cores as the server and the database. They send what our agent sends, at the assigned interval, give or take a tenth. By default the interval gives 8,000 heartbeats a second for the fleet.

Most use relays that send 100 at once and keep unanswered ones. Some have a WebSocket each, and one in a hundred of the others sends a request per heartbeat.

The fleet is written into the store in bulk, as if it had been running until a moment ago. So the server starts in front of it and meets every agent for the first time.

Some agents die, some restart, some falter for most of their stale time, some join with a token. "First contact" lasts until every agent had time to be heard once; after that, "everybody is met".

Verdicts are read from the evidence afterwards. Any verdict on a machine that did not die is false. One that is "held back" was right and had to wait, as after a time in which the server could not listen ("our own gap").

Lateness counts from the last stored heartbeat, or the end of our own gap, plus the stale time.`,
  },
  {
    benchmark: 'fleet-restart',
    title: 'Everything killed and started again',
    command: 'node bench/fleet.ts --story restart --nodes 200000 --rate 8000 --minutes 4',
    how: `Servers and database end by \`kill -9\` while the fleet sends heartbeats and a client makes changes. Changes of a status are stored before they are answered.

A heartbeat that changes nothing is answered on arrival and stored a moment later, so the last ones may be missing here. The next heartbeat repeats it, which is soon enough: a single missing heartbeat is no reason for a verdict. After a gap longer than an interval, silence counts from its end.`,
  },
  {
    benchmark: 'fleet-store-down',
    title: 'The store stands still',
    command: 'node bench/fleet.ts --story store-down --nodes 200000 --rate 8000 --minutes 4',
    how: 'All processes of the database are stopped for a minute. No connection breaks, and no statement is answered.',
  },
  {
    benchmark: 'fleet-rolling',
    title: 'Two replicas, replaced by a newer version',
    command: 'node bench/fleet.ts --story rolling --nodes 200000 --rate 8000 --minutes 4',
    how: `Each replica in turn is replaced by a newer one. That one first adds columns to the tables of heartbeats and nodes and builds an index, while the older one serves. Then one is killed, and the other takes over. The newer version is this one with two more migrations.`,
  },
  {
    benchmark: 'fleet-crash-loop',
    title: 'Killed again and again',
    command: 'node bench/fleet.ts --story crash-loop --nodes 200000 --rate 8000 --minutes 4',
    how: `The server ends by \`kill -9\` three times, eight seconds apart, so it meets the fleet again each time before it has recovered. The database stays. Judged as above.`,
  },
  {
    benchmark: 'flat',
    title: 'A beat in a small fleet and in a large one',
    command: 'node bench/flat.ts',
    how: `The same heartbeats a second, in batches, to a replica with few nodes and to one with many, side by side and in turns. The figure is all processor time of server and database per heartbeat, with everything that supervises such a fleet.`,
  },
  {
    benchmark: 'registrations',
    title: 'A machine joins a small pool and a large one',
    command: 'node bench/registrations.ts',
    how: `Machines join one pool by a token, one after another at a steady rate, and each reports ready with its first heartbeat. Then a rack joins at once. The figure is all processor time of server and database for each, minus what both need at rest. The other machines are written in bulk and send no heartbeats.`,
  },
  {
    benchmark: 'replicas',
    title: 'Where the limit lies with two replicas',
    command: 'node bench/replicas.ts',
    how: `Heartbeats in batches, at growing rates, to one replica and to two on the same database, until fewer are answered than are sent.`,
  },
  {
    benchmark: 'readers',
    title: 'Event streams',
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
    how: `Simultaneous allocations over HTTP in a pool of free machines, so that no driver takes any time, against bare runs of the engine with as many empty steps.`,
  },
];

/** No figures: it must hold for any record. */
const forYou = [
  '## Use these figures',
  '**How many machines can a replica supervise?** Heartbeats count, not machines: machines ÷ interval = heartbeats a second. The interval grows with the fleet ([pace](pace.md)). So a larger fleet does not send more heartbeats, but a dead machine is found later, and each machine takes some [memory](#memory-of-a-replica).',
  '**Which `--beat-rate`?** At most half of what a replica answers on your machine: run [the limit](#where-the-limit-lies-with-two-replicas) there. The other half is for people, for operations, and for the minutes after a restart, when a heartbeat costs more ([first contact](#a-fleet-that-beats)). The default, 5000, fits 50,000 machines at an interval of 10 s.',
  '**Plain requests, a stream or a relay?** Start with plain requests.',
  '- A [stream](../reference/agent.md#the-stream) saves the server about a third of a heartbeat and the long poll for tasks, for some memory while it is open. A replica holds 100,000.\n- A [relay](../how-to/relay.md) suits many machines in one place. A heartbeat in a batch costs least by far (compare [one beat](#one-beat) with [batches](#batches-of-a-relay)), and only one machine needs access to the control plane.',
  '**When does a second replica help?** When the thread of one replica is the limit (its process uses a whole core) and there are cores to spare; and always for the day the first one dies. It does not help when the cores or the database are the limit, because replicas share them. See [replicas](../how-to/replicas.md).',
  '**The database is the limit?** Use a longer interval (a smaller `--beat-rate`) and relays first; then a faster database, on its own cores and disks.',
].join('\n\n');

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
  const head = `## ${title}\n\n${how}\n\n\`\`\`sh\n${command}\n\`\`\``;
  if (!recorded) return `${head}\n\n**Not recorded.**`;
  const notes = recorded.notes.map((note) => `- ${note}`).join('\n');
  const load = `Load of the machine, including this run: ${loadOf(recorded)} after.`;
  const otherwise =
    recorded.command && recorded.command !== command ? `**Recorded differently**, by \`${recorded.command}\`.` : '';
  const where = isOneOfSeveral ? `Recorded on a machine with ${machineOf(recorded.machine)}.` : '';
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
    ? `Every figure is from one machine with ${machines[0]}.`
    : 'Figures are from several machines, named with each.';

export function writePage(records: readonly Recorded[]): string {
  const recorded = new Map(records.map((each) => [each.benchmark, each]));
  const machines = [...new Set(records.map(({ machine }) => machineOf(machine)))];
  return `${[
    '# Scale, measured',
    'For operators who plan a fleet: how far one machine goes, and the advice that follows from it.',
    `${wheresOf(machines)} Server, embedded PostgreSQL and the load generator share its cores. Each ratio is against a baseline of the same run. Simulated parts are marked. Times depend on the machine and its other work; ratios and processor time less so.`,
    'Each section has its command; run it on an idle machine. `--quick` takes a smaller size and a minute or two, for a first look, not for comparison. `--help` prints the options and the duration. `--json` prints one line for programs.',
    '`node bench/scale-page.ts` writes this page from `bench/page/scale.jsonl`; a test compares them. To record a run, save its `--json` output in a directory as `NAME.json` and run `node bench/scale-page.ts --from DIRECTORY`. Other records stay. A run with `--quick` is refused.',
    forYou,
    `## Targets\n\n${summaryOf(records)}`,
    ...sections.map((section) => sectionOf(section, recorded.get(section.benchmark), machines.length > 1)),
  ].join('\n\n')}\n`;
}

/** The previous records with the new ones replaced. */
export function merge(before: readonly Recorded[], fresh: readonly Recorded[]): Recorded[] {
  const all = new Map([...before, ...fresh].map((each) => [each.benchmark, each]));
  const order = sections.map(({ benchmark }) => benchmark);
  return [...all.values()].toSorted((a, b) => order.indexOf(a.benchmark) - order.indexOf(b.benchmark));
}
