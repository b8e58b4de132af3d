/**
 * Draws recorded boots on a time axis. The upper part shows the share still booting with its
 * confidence band, the lower part a histogram. The budget is a line through both parts, which the
 * pointer and the keyboard move.
 */
import { type CSSProperties, type KeyboardEvent, type MouseEvent, type PointerEvent, useMemo, useRef } from 'react';
import { marksOn, placeOf, secondsAt } from '../../../../src/base/duration-scale.ts';
import type { BootPhase } from '../../../../src/contract/supervision/boots.ts';
import { formatSeconds } from '../../../../src/lifecycle/boots/what-if-words.ts';
import { formatRoughly } from '../../ui/time/durations.ts';
import styles from './BootChart.module.css';
import {
  bandPath,
  binsOf,
  curvePath,
  curveWords,
  nudge,
  type Outcome,
  outcomes,
  scaleOf,
  tidySeconds,
} from './chart-geometry.ts';

interface Props {
  phase: BootPhase;
  budget_seconds: number;
  /** How long after the budget a boot is still rescued. */
  rescue_seconds: number;
  /** The effect of this budget, for screen readers. */
  effect: string;
  onBudget: (seconds: number) => void;
}

const width = 1000;
const curveHeight = 200;
const binHeight = 80;

/** Steps that a key moves the line by. Shift multiplies them by five. */
const keySteps: Record<string, number> = {
  ArrowRight: 1,
  ArrowUp: 1,
  ArrowLeft: -1,
  ArrowDown: -1,
  PageUp: 5,
  PageDown: -5,
};
const keyPlaces: Record<string, number> = { Home: 0, End: 1 };

/** Outcomes also differ in pattern: late boots are striped, boots that never arrived are hollow. */
const fills: Record<Outcome, string> = {
  completed: styles.completed ?? '',
  late: styles.late ?? '',
  timed_out: styles.timedOut ?? '',
  cancelled: styles.cancelled ?? '',
};

const percentOf = (place: number) => `${(place * 100).toFixed(2)}%`;

export function BootChart({ phase, budget_seconds, rescue_seconds, effect, onBudget }: Props) {
  const scale = useMemo(() => scaleOf(phase), [phase]);
  const plot = useRef<HTMLDivElement>(null);
  const place = placeOf(budget_seconds, scale);
  const placeInForce = placeOf(phase.budget_seconds, scale);

  const moveTo = ({ clientX }: PointerEvent | MouseEvent) => {
    const box = plot.current?.getBoundingClientRect();
    if (box) onBudget(tidySeconds(secondsAt((clientX - box.left) / box.width, scale)));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const end = keyPlaces[event.key];
    const steps = keySteps[event.key];
    if (end === undefined && steps === undefined) return;
    event.preventDefault();
    onBudget(
      steps === undefined
        ? tidySeconds(secondsAt(end ?? 0, scale))
        : nudge(budget_seconds, event.shiftKey ? steps * 5 : steps),
    );
  };
  return (
    <div className={styles.chart}>
      {/* biome-ignore lint/a11y/noStaticElementInteractions lint/a11y/useKeyWithClickEvents: a shortcut for the pointer; the slider inside handles the keyboard. */}
      <div
        ref={plot}
        className={styles.plot}
        style={{ '--place': place, '--rescue-end': placeOf(budget_seconds + rescue_seconds, scale) } as CSSProperties}
        onClick={moveTo}
      >
        <div className={styles.givenUp} />
        <div className={styles.rescued} />
        <Lanes phase={phase} />
        <div className={styles.shares} aria-hidden>
          {['100 %', '50 %', '0 %'].map((share) => (
            <span key={share}>{share}</span>
          ))}
        </div>
        <div
          className={styles.inForce}
          data-apart={budget_seconds !== phase.budget_seconds || undefined}
          data-left={placeInForce > 0.8 || undefined}
          style={{ left: percentOf(placeInForce) }}
          aria-hidden
        >
          <span>now {formatSeconds(phase.budget_seconds)}</span>
        </div>
        <div
          className={styles.budget}
          role="slider"
          tabIndex={0}
          aria-label="Budget"
          aria-valuemin={Math.floor(scale.from)}
          aria-valuemax={Math.ceil(Math.max(scale.to, budget_seconds))}
          aria-valuenow={budget_seconds}
          aria-valuetext={`${formatSeconds(budget_seconds)}. ${effect}`}
          onKeyDown={onKeyDown}
          onClick={(event) => event.stopPropagation()}
          onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
          onPointerMove={(event) => event.currentTarget.hasPointerCapture(event.pointerId) && moveTo(event)}
        >
          <span className={styles.grip} />
          <span className={styles.flag} data-left={place > 0.7 || undefined}>
            {formatSeconds(budget_seconds)}
          </span>
        </div>
      </div>
      <div className={`${styles.marks} tabular`} aria-hidden>
        {marksOn(scale).map((seconds) => (
          <span key={seconds} style={{ left: percentOf(placeOf(seconds, scale)) }}>
            {seconds < 1 ? `${seconds} s` : formatRoughly(seconds)}
          </span>
        ))}
      </div>
    </div>
  );
}

/** The parts that do not change while the line moves. */
function Lanes({ phase }: { phase: BootPhase }) {
  const scale = useMemo(() => scaleOf(phase), [phase]);
  return useMemo(() => {
    const bins = binsOf(phase.samples, scale);
    const tallest = Math.max(1, ...bins.map(({ total }) => total));
    const x = (seconds: number) => placeOf(seconds, scale) * width;
    const drawing = { width, height: curveHeight, scale };
    return (
      <>
        <svg
          className={styles.curveLane}
          viewBox={`0 0 ${width} ${curveHeight}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={curveWords(phase)}
        >
          <path d={bandPath(phase.survival, drawing)} className={styles.band} />
          <path d={curvePath(phase.survival, drawing)} className={styles.curve} vectorEffect="non-scaling-stroke" />
        </svg>
        <svg
          className={styles.binLane}
          viewBox={`0 0 ${width} ${binHeight}`}
          preserveAspectRatio="none"
          role="img"
          aria-label="How many boots took how long"
        >
          <defs>
            <pattern id="late" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
              <rect width="8" height="8" className={styles.lateGround} />
              <rect width="3" height="8" className={styles.lateStripe} />
            </pattern>
          </defs>
          {bins.map((bin) => {
            const left = x(bin.from);
            let top = binHeight;
            return outcomes.map((outcome) => {
              if (bin.counts[outcome] === 0) return null;
              // Keep a single boot among hundreds visible.
              const barHeight = Math.max(4, (bin.counts[outcome] / tallest) * binHeight * 0.95);
              top -= barHeight;
              return (
                <rect
                  key={`${bin.from}${outcome}`}
                  className={fills[outcome]}
                  x={left + 1.5}
                  y={top}
                  width={Math.max(2, x(bin.to) - left - 3)}
                  height={barHeight}
                  vectorEffect="non-scaling-stroke"
                />
              );
            });
          })}
        </svg>
      </>
    );
  }, [phase, scale]);
}

const legend: { outcome: Outcome; words: string }[] = [
  { outcome: 'completed', words: 'arrived in time' },
  { outcome: 'late', words: 'arrived after the boot was given up' },
  { outcome: 'timed_out', words: 'given up and never arrived' },
  { outcome: 'cancelled', words: 'cancelled' },
];

export const BootLegend = () => (
  <ul className={styles.legend}>
    <li>
      <svg width="22" height="14" aria-hidden>
        <rect y="2" width="22" height="10" className={styles.band} />
        <path d="M0,4H9V10H22" className={styles.curve} />
      </svg>
      share still running, with its 95 % confidence band
    </li>
    {legend.map(({ outcome, words }) => (
      <li key={outcome}>
        <svg width="14" height="14" aria-hidden>
          <rect x="1" y="1" width="12" height="12" rx="2" className={fills[outcome]} />
        </svg>
        {words}
      </li>
    ))}
    <li>
      <span className={styles.rescuedSwatch} aria-hidden />
      past the budget, still rescued
    </li>
  </ul>
);
