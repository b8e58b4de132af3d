/** Times with microseconds: epoch seconds as the database writes them, and RFC 3339. */
import { moment } from '../../../base/clock.ts';

const endOfYear9999 = 253_402_300_799;

/** Returns the text unchanged if RFC 3339 cannot express the time. */
export function isoOf(epoch: string): string {
  const match = /^(\d{1,12})\.(\d{6})$/.exec(epoch);
  if (!match?.[1] || !match[2] || Number(match[1]) > endOfYear9999) return epoch;
  return `${moment(Number(match[1]) * 1000)
    .toISOString()
    .slice(0, -5)}.${match[2]}Z`;
}

export function epochOf(iso: string): string {
  const match = /^(.+)\.(\d{6})Z$/.exec(iso);
  const ms = match ? Date.parse(`${match[1]}Z`) : Number.NaN;
  return match && !Number.isNaN(ms) ? `${ms / 1000}.${match[2]}` : iso;
}
