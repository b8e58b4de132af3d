/** Boot stages from what `cloud-init analyze blame` or `cloud-init analyze show` prints. */
import { ApiProblem } from './errors.ts';
import type { BootStage } from './node.ts';

interface Boot {
  stages: BootStage[];
  /** The stages that have begun and not ended, the innermost last. */
  open: string[];
  /** When the first part of each stage began. */
  first_starts: Map<string, number>;
}

/** Longer lines and deeper nesting are not cloud-init's; the bounds keep the cost of a report linear. */
const maxLineLength = 4096;
const maxOpen = 64;

const mostName = 128;
const mostShown = 80;
const seconds = '(-?\\d{1,9}\\.\\d{1,9})';

/** `config-ssh ran successfully`; newer releases add ` and took 0.120 seconds`. */
const outcomes = [' ran successfully', ' previously ran', ' failed running'];

function withoutOutcome(what: string): string {
  const places = outcomes.map((words) => what.indexOf(words)).filter((place) => place >= 0);
  return what.slice(0, Math.min(...places, what.length));
}

const stage = (name: string, took: string, parent?: string, starts?: string): BootStage => ({
  name: name.slice(0, mostName),
  seconds: Number(took),
  ...(parent && { parent: parent.slice(0, mostName) }),
  // A clock that was set back meanwhile makes it less than nothing.
  ...(starts !== undefined && Number(starts) >= 0 && { starts_seconds: Number(starts) }),
});

/** `init-network/config-growpart` is `config-growpart` of `init-network`. */
function stageAt(path: string, took = '0'): BootStage {
  const slash = path.indexOf('/');
  return slash < 1 ? stage(path, took) : stage(path.slice(slash + 1), took, path.slice(0, slash));
}

/** Of several boots the last one counts: it is the one that brought the machine up. */
function beginAnew(boot: Boot): void {
  boot.stages = [];
  boot.open = [];
  boot.first_starts.clear();
}

function add(boot: Boot, added: BootStage): void {
  const { parent, starts_seconds } = added;
  boot.stages.push(added);
  if (parent !== undefined && starts_seconds !== undefined && !boot.first_starts.has(parent))
    boot.first_starts.set(parent, starts_seconds);
}

function begin(boot: Boot, path: string): void {
  if (boot.open.length >= maxOpen)
    throw new ApiProblem('invalid_request', `More than ${maxOpen} boot stages have begun and not finished.`);
  boot.open.push(stageAt(path).name);
}

/** When a stage itself began is not printed; it did no later than the first thing in it. */
function finish(boot: Boot, path: string, took: string): void {
  const finished = stageAt(path, took);
  boot.open = boot.open.filter((name) => name !== finished.name);
  const starts_seconds = boot.first_starts.get(finished.name);
  add(boot, { ...finished, ...(starts_seconds !== undefined && { starts_seconds }) });
}

const skip = () => {};

const lines: readonly [RegExp, (boot: Boot, first: string, second: string, third: string) => void][] = [
  [/^-- Boot Record \d+ --$/, beginAnew],
  [new RegExp(`^${seconds}s \\((\\S+)\\)$`), (boot, took, path) => add(boot, stageAt(path, took))],
  [/^Starting stage: (\S+)$/, begin],
  [new RegExp(`^Finished stage: \\((\\S+)\\) ${seconds} seconds$`), finish],
  [
    new RegExp(`^\\| *\`->(.+) @${seconds}s \\+${seconds}s$`),
    (boot, what, starts, took) => add(boot, stage(withoutOutcome(what), took, boot.open.at(-1), starts)),
  ],
  [/^The (?:total )?time [\w ]+ is printed after the "[@+]" character\.$/, skip],
  [/^Total Time: -?[\d.]+ seconds$/, skip],
  [/^\d+ boot records analyzed$/, skip],
  [/^$/, skip],
];

/** What ran several times in one boot is one stage that began with the first and took as long as all of them. */
function together(stages: BootStage[]): BootStage[] {
  const found = new Map<string, BootStage>();
  for (const each of stages) {
    const key = JSON.stringify([each.parent, each.name]);
    const before = found.get(key);
    const seconds = Math.round(((before?.seconds ?? 0) + each.seconds) * 1e6) / 1e6;
    found.set(key, { ...each, ...before, seconds });
  }
  return [...found.values()];
}

export function readBootReport(text: string): { stages: BootStage[] } {
  const boot: Boot = { stages: [], open: [], first_starts: new Map() };
  for (const [index, written] of text.split('\n').entries()) {
    const line = written.trim();
    const kind = line.length > maxLineLength ? undefined : lines.find(([pattern]) => pattern.test(line));
    if (!kind) {
      const shown = JSON.stringify(line.slice(0, mostShown));
      throw new ApiProblem('invalid_request', `Line ${index + 1} is not what cloud-init analyze prints: ${shown}.`);
    }
    const [pattern, take] = kind;
    const [, first = '', second = '', third = ''] = pattern.exec(line) ?? [];
    take(boot, first, second, third);
  }
  if (boot.stages.length === 0) throw new ApiProblem('invalid_request', 'The report names no boot stage.');
  return { stages: together(boot.stages) };
}
