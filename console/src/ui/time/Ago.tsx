/** A moment: relative to now, with the absolute time on hover. */
import { useTicking } from '../../api/server-clock.ts';
import { absolute, age, due, relative } from './times.ts';

interface Props {
  at: string;
  /** `3m` instead of `3m ago`, where the words around it say that it is an age. */
  asAge?: boolean;
  /** It is to come: `now` once it is due, instead of `just now`. */
  asDue?: boolean;
}

export function Ago({ at, asAge, asDue }: Props) {
  const wordsOf = asAge ? age : asDue ? due : relative;
  const words = useTicking((nowMs) => wordsOf(Date.parse(at), nowMs));
  return (
    <time dateTime={at} title={absolute(at)} className="tabular">
      {words}
    </time>
  );
}
