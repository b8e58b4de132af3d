/** A moment relative to now, with the absolute time on hover. */
import { useTicking } from '../../api/server-clock.ts';
import { formatAbsolute, formatAge, formatDue, formatRelative } from './times.ts';

interface Props {
  at: string;
  /** `3m` instead of `3m ago`. */
  asAge?: boolean;
  /** For a future moment: shows `now` when it is due, instead of `just now`. */
  asDue?: boolean;
}

export function Ago({ at, asAge, asDue }: Props) {
  const wordsOf = asAge ? formatAge : asDue ? formatDue : formatRelative;
  const words = useTicking((nowMs) => wordsOf(Date.parse(at), nowMs));
  return (
    <time dateTime={at} title={formatAbsolute(at)} className="tabular">
      {words}
    </time>
  );
}
