/** Boot stages from what `cloud-init analyze blame` or `cloud-init analyze show` prints. */
import { ApiProblem } from './errors.ts';
import type { BootStage } from './node.ts';

interface Boot {
  stages: BootStage[];
  /** The stages that have begun and not ended, the innermost last. */
  open: string[];
}

const mostName = 128;
const mostShown = 80;
const seconds = '(-?\\d{1,9}\\.\\d{1,9})';

/** `config-ssh ran successfully`; newer releases add ` and took 0.120 seconds`. */
const outcome = / (?:ran successfully|previously ran|failed running).*$/;

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
}

/** When a stage itself began is not printed; it did no later than the first thing in it. */
function finish(boot: Boot, path: string, took: string): void {
  const finished = stageAt(path, took);
  boot.open = boot.open.filter((name) => name !== finished.name);
  const starts = boot.stages.find(
    ({ parent, starts_seconds }) => parent === finished.name && starts_seconds !== undefined,
  );
  boot.stages.push({ ...finished, ...(starts && { starts_seconds: starts.starts_seconds }) });
}

const skip = () => {};

const lines: readonly [RegExp, (boot: Boot, first: string, second: string, third: string) => void][] = [
  [/^-- Boot Record \d+ --$/, beginAnew],
  [new RegExp(`^${seconds}s \\((\\S+)\\)$`), (boot, took, path) => boot.stages.push(stageAt(path, took))],
  [/^Starting stage: (\S+)$/, (boot, path) => boot.open.push(stageAt(path).name)],
  [new RegExp(`^Finished stage: \\((\\S+)\\) ${seconds} seconds$`), finish],
  [
    new RegExp(`^\\| *\`->(.+) @${seconds}s \\+${seconds}s$`),
    (boot, what, starts, took) => boot.stages.push(stage(what.replace(outcome, ''), took, boot.open.at(-1), starts)),
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
  const boot: Boot = { stages: [], open: [] };
  for (const [index, written] of text.split('\n').entries()) {
    const line = written.trim();
    const kind = lines.find(([pattern]) => pattern.test(line));
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
