/**
 * Parses the values of flags. An invalid value is a usage error that names the expected form.
 */
import { InvalidArgumentError, Option } from 'commander';
import { type Clock, moment as momentAt } from '../../base/clock.ts';
import type { SamplePhase } from '../../lifecycle/boots/boot-samples.ts';
import { parseDuration } from '../render/text/duration.ts';

export function duration(text: string): number {
  const seconds = parseDuration(text);
  if (seconds === null || seconds <= 0) throw new InvalidArgumentError('Expected a time like 90, 90s, 15m or 1h30m.');
  return seconds;
}

/** A space instead of the T is accepted, because our own output has one. */
const momentWithZone = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*(Z|[+-]\d\d:?\d\d)$/;

/**
 * Returns null unless the text is a date and time with its zone. A local time would mean another
 * moment on each computer.
 */
function parseMoment(text: string): string | null {
  const ms = momentWithZone.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(ms) ? null : momentAt(ms).toISOString();
}

export function moment(text: string): string {
  const at = parseMoment(text);
  if (at === null) throw new InvalidArgumentError('Expected a date and time with its zone, like 2026-01-31T14:00:00Z.');
  return at;
}

export function count(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1) throw new InvalidArgumentError('Expected a whole number above 0.');
  return value;
}

/** Collects the values of a flag that may be repeated. */
export const appendValue = (value: string, earlier: string[] = []): string[] => [...earlier, value];

/** A comma separates labels only before another `key=`, so values may contain commas. */
const betweenLabels = /,(?=[A-Za-z0-9][A-Za-z0-9._/-]*=)/;

export function labels(text: string, earlier: Record<string, string> = {}): Record<string, string> {
  const all = { ...earlier };
  for (const pair of text.split(betweenLabels)) {
    const equals = pair.indexOf('=');
    if (equals < 1) throw new InvalidArgumentError('Expected key=value.');
    all[pair.slice(0, equals)] = pair.slice(equals + 1);
  }
  return all;
}

export const timeoutWaitOption = (condition = 'with --wait') =>
  new Option('--timeout-wait <time>', `${condition}: stop waiting after this time, with exit status 5`).argParser(
    duration,
  );

export const waitOption = () => new Option('-w, --wait', 'show progress and wait for the result');

/** The server requires a reason even for a dry run, but does not store it. */
export const dryRunOption = (description: string) =>
  new Option('--dry-run', `${description}; needs no --reason`).implies({ reason: 'dry run' });

export const limitOption = (defaultLimit: number) =>
  new Option('--limit <n>', 'the maximum number to show').argParser(count).default(defaultLimit);

/** A moment, or a duration before now. */
export type Since = { at: string } | { seconds_ago: number };

export function momentOrAgo(text: string): Since {
  const seconds_ago = parseDuration(text);
  if (seconds_ago !== null) return { seconds_ago };
  const at = parseMoment(text);
  if (at === null)
    throw new InvalidArgumentError(
      'Expected a time ago like 15m, or a date and time with its zone, like 2026-01-31T14:00:00Z.',
    );
  return { at };
}

/** `defaultText` ends the help text and names the default. */
export const sinceOption = (defaultText = '') =>
  new Option('--since <time>', `only after this moment, or this long ago: 15m, 2h${defaultText}`).argParser(
    momentOrAgo,
  );

export const toMoment = (from: Since | undefined, clock: Clock): string | undefined =>
  from && ('at' in from ? from.at : momentAt(clock.nowMs() - from.seconds_ago * 1000).toISOString());

export interface PhaseOption {
  phase?: SamplePhase;
}

export const phaseOption = (description: string) =>
  new Option(
    '--phase <phase>',
    `${description}. provision: from launch until the machine registers; start: from then until it is ready`,
  ).choices(['provision', 'start']);
