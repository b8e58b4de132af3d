/** Reads boot stages from the lines of `cloud-init analyze blame`, `show` and `boot`. */
import { ApiProblem } from '../../errors/errors.ts';
import type { BootStage } from '../../node.ts';
import { buildStage, buildStageFromPath, checkOpenStages, roundToMicroseconds } from './stages.ts';

interface Boot {
  stages: BootStage[];
  /** Stages that have started but not ended, innermost last. */
  open: string[];
  /** By stage name, when its first part started, in seconds from the start of the boot. */
  first_starts: Map<string, number>;
  /** From `analyze boot`: the start of the machine and the last printed time, in milliseconds. */
  started_ms?: number | undefined;
  last_time_ms?: number | undefined;
}

/** All lines that cloud-init prints are shorter. The limit keeps parsing linear. */
const maxLineLength = 4096;
const maxShownLength = 80;
const seconds = '(-?\\d{1,9}\\.\\d{1,9})';
const moment = '(\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d(?:\\.\\d{1,9})?(?:\\+00:00)?)';

/** Newer releases append this to every event: `no cache found (duration: 0.001s)`. */
const duration = / \(duration: \d{1,9}\.\d{1,9}s\)$/;
/** The line of a failed module. Older releases print it for every module. */
const moduleStart = /^running (\S+) with frequency [\w-]+$/;
/** For example `config-ssh ran successfully`. Newer releases add ` and took 0.120 seconds`. */
const outcomes = [' ran successfully', ' previously ran', ' failed running'];

/**
 * The name of a module without its outcome; otherwise the stages of a failed and a successful boot
 * could not be compared.
 */
function nameOf(description: string): string {
  const event = description.replace(duration, '');
  const module = moduleStart.exec(event)?.[1];
  if (module !== undefined) return module;
  const indexes = outcomes.map((outcome) => event.indexOf(outcome)).filter((index) => index >= 0);
  return event.slice(0, Math.min(...indexes, event.length));
}

/** Only the last of several boots counts, because it brought the machine up. */
function startBoot(boot: Boot): void {
  boot.stages = [];
  boot.open = [];
  boot.first_starts.clear();
}

function addStage(boot: Boot, stage: BootStage): void {
  const { parent, starts_seconds } = stage;
  boot.stages.push(stage);
  if (parent !== undefined && starts_seconds !== undefined && !boot.first_starts.has(parent))
    boot.first_starts.set(parent, starts_seconds);
}

function startStage(boot: Boot, path: string): void {
  checkOpenStages(boot.open);
  boot.open.push(buildStageFromPath(path, 0).name);
}

/** cloud-init does not print when a stage starts, so the start of its first part is used. */
function finishStage(boot: Boot, path: string, seconds: string): void {
  const finished = buildStageFromPath(path, Number(seconds));
  boot.open = boot.open.filter((name) => name !== finished.name);
  const starts_seconds = boot.first_starts.get(finished.name);
  addStage(boot, { ...finished, ...(starts_seconds !== undefined && { starts_seconds }) });
}

/** cloud-init prints times in UTC; older releases omit the zone. */
const momentMs = (text: string): number => Date.parse(`${text.slice(0, 10)}T${text.slice(11).replace('+00:00', '')}Z`);

function startMachine(boot: Boot, at: string): void {
  startBoot(boot);
  boot.started_ms = momentMs(at);
  boot.last_time_ms = boot.started_ms;
}

/** Adds the stage that lasted from the previous printed time to this one. */
const addStageUntil =
  (name: string) =>
  (boot: Boot, at: string): void => {
    const { started_ms, last_time_ms } = boot;
    const ms = momentMs(at);
    // Stages next to an invalid date have no duration.
    boot.last_time_ms = Number.isNaN(ms) ? undefined : ms;
    if (started_ms === undefined || last_time_ms === undefined || Number.isNaN(ms - started_ms)) return;
    // The clock was set back, so the duration is unknown.
    if (ms < last_time_ms) return;
    const secondsBetween = (from: number, until: number) => roundToMicroseconds((until - from) / 1000);
    addStage(
      boot,
      buildStage(name, secondsBetween(last_time_ms, ms), undefined, secondsBetween(started_ms, last_time_ms)),
    );
  };

function refuseUnsupported(): never {
  throw new ApiProblem(
    'invalid_request',
    'cloud-init could not read the boot times of this machine. Send what cloud-init analyze show prints instead.',
  );
}

const skip = () => {};

const lines: readonly [RegExp, (boot: Boot, first: string, second: string, third: string) => void][] = [
  [/^-- Boot Record \d+ --$/, startBoot],
  [
    new RegExp(`^${seconds}s \\((\\S+)\\)$`),
    (boot, seconds, path) => addStage(boot, buildStageFromPath(path, Number(seconds))),
  ],
  [/^Starting stage: (\S+)$/, startStage],
  [new RegExp(`^Finished stage: \\((\\S+)\\) ${seconds} seconds$`), finishStage],
  [
    new RegExp(`^\\| *\`->(.+) @${seconds}s \\+${seconds}s$`),
    (boot, event, start, seconds) =>
      addStage(boot, buildStage(nameOf(event), Number(seconds), boot.open.at(-1), Number(start))),
  ],
  [/^The (?:total )?time [\w ]+ is printed after the "[@+]" character\.$/, skip],
  [/^Total Time: -?[\d.]+ seconds$/, skip],
  [/^\d+ boot records analyzed$/, skip],
  [/^$/, skip],
  [/^-- Most Recent (?:Container )?Boot Record --$/, startBoot],
  [new RegExp(`^(?:Kernel Started|Container started) at: ${moment}$`), startMachine],
  [new RegExp(`^Kernel ended boot at: ${moment}$`), addStageUntil('kernel')],
  [new RegExp(`^Cloud-init activated by systemd at: ${moment}$`), addStageUntil('before-cloud-init')],
  [new RegExp(`^Cloud-init start: ${moment}$`), addStageUntil('cloud-init-start')],
  // These lines repeat differences of the times above.
  [/^(?:Kernel time to boot|Time between Kernel end boot and Cloud-init activation) \(seconds\): [-\d.e]{1,40}$/, skip],
  // The exit status, which some releases print next to the record.
  [/^(?:successful|container)$/, skip],
  [/^Your Linux distro or container does not support this functionality\.$/, refuseUnsupported],
];

export function readLines(text: string): BootStage[] {
  const boot: Boot = { stages: [], open: [], first_starts: new Map() };
  for (const [index, rawLine] of text.split('\n').entries()) {
    const line = rawLine.trim();
    const match = line.length > maxLineLength ? undefined : lines.find(([pattern]) => pattern.test(line));
    if (!match) {
      const shown = JSON.stringify(line.slice(0, maxShownLength));
      throw new ApiProblem('invalid_request', `Line ${index + 1} is not what cloud-init analyze prints: ${shown}.`);
    }
    const [pattern, applyLine] = match;
    const [, first = '', second = '', third = ''] = pattern.exec(line) ?? [];
    applyLine(boot, first, second, third);
  }
  return boot.stages;
}
