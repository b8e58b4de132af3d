/** A moment: relative to now, with the absolute time on hover. */
import { useTicking } from '../live/clock.ts';
import { absolute, relative } from '../words/times.ts';

interface Props {
  at: string;
  /** `3m` instead of `3m ago`, where the column's name says that it is an age. */
  age?: boolean;
}

export function Ago({ at, age }: Props) {
  const words = useTicking((nowMs) => relative(Date.parse(at), nowMs));
  return (
    <time dateTime={at} title={absolute(at)} className="tabular">
      {age ? words.replace(/ ago$/, '') : words}
    </time>
  );
}
