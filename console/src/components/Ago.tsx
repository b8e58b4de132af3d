/** A moment: relative to now, with the absolute time on hover. */
import { useTicking } from '../live/clock.ts';
import { absolute, age, relative } from '../words/times.ts';

interface Props {
  at: string;
  /** `3m` instead of `3m ago`, where the words around it say that it is an age. */
  asAge?: boolean;
}

export function Ago({ at, asAge }: Props) {
  const words = useTicking((nowMs) => (asAge ? age : relative)(Date.parse(at), nowMs));
  return (
    <time dateTime={at} title={absolute(at)} className="tabular">
      {words}
    </time>
  );
}
