/** Recorded boots as a histogram, the share still on its way as a curve over it, and the budget as a line one can move. */
import { type KeyboardEvent, type PointerEvent, useMemo, useRef } from 'react';
import type { BootPhase } from '../../../src/contract/boots.ts';
import { binsOf, marksOn, type Outcome, outcomes, placeOf, scaleOf, secondsAt, tidySeconds } from '../words/boots.ts';
import { roughly } from '../words/durations.ts';
import styles from './BootChart.module.css';

interface Props {
  phase: BootPhase;
  budget_seconds: number;
  onBudget: (seconds: number) => void;
}

const width = 1000;
const height = 260;
/** A key moves the line by a little, or with shift by more. */
const keySteps: Record<string, number> = { ArrowRight: 1.02, ArrowUp: 1.02, ArrowLeft: 1 / 1.02, ArrowDown: 1 / 1.02 };

/** Told apart by their pattern too: a boot that came late is striped, one that never came is hollow. */
const fills: Record<Outcome, string> = {
  completed: styles.completed ?? '',
  late: styles.late ?? '',
  timed_out: styles.timedOut ?? '',
  cancelled: styles.cancelled ?? '',
};

export function BootChart({ phase, budget_seconds, onBudget }: Props) {
  const scale = useMemo(() => scaleOf(phase), [phase]);
  const bins = useMemo(() => binsOf(phase.samples, scale), [phase, scale]);
  const tallest = Math.max(1, ...bins.map(({ total }) => total));
  const plot = useRef<HTMLDivElement>(null);
  const x = (seconds: number) => placeOf(seconds, scale) * width;

  const drag = (event: PointerEvent) => {
    const box = plot.current?.getBoundingClientRect();
    if (box) onBudget(tidySeconds(secondsAt((event.clientX - box.left) / box.width, scale)));
  };
  const step = (event: KeyboardEvent) => {
    const factor = keySteps[event.key];
    if (factor === undefined) return;
    event.preventDefault();
    onBudget(tidySeconds(budget_seconds * factor ** (event.shiftKey ? 10 : 3)));
  };
  const curve = phase.survival
    .map(({ seconds, share }, i) => `${i === 0 ? 'M0' : `H${x(seconds)}V`}${i === 0 ? ',0' : (1 - share) * height}`)
    .join('');
  return (
    <div className={styles.chart}>
      <div ref={plot} className={styles.plot}>
        <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label="Recorded boots">
          <defs>
            <pattern id="late" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
              <rect width="8" height="8" className={styles.lateGround} />
              <rect width="3" height="8" className={styles.lateStripe} />
            </pattern>
          </defs>
          {bins.map((bin) => {
            const left = x(bin.from);
            let top = height;
            return outcomes.map((outcome) => {
              const tall = (bin.counts[outcome] / tallest) * height * 0.92;
              if (tall === 0) return null;
              top -= tall;
              return (
                <rect
                  key={`${bin.from}${outcome}`}
                  className={fills[outcome]}
                  x={left + 1.5}
                  y={top}
                  width={Math.max(2, x(bin.to) - left - 3)}
                  height={tall}
                />
              );
            });
          })}
          <path d={`${curve}H${width}`} className={styles.curve} vectorEffect="non-scaling-stroke" />
        </svg>
        <div className={styles.shares} aria-hidden>
          {['100 %', '75 %', '50 %', '25 %'].map((share, at) => (
            <span key={share} style={{ top: `${at * 25}%` }}>
              {share}
            </span>
          ))}
        </div>
        <div
          className={styles.budget}
          style={{ left: `${placeOf(budget_seconds, scale) * 100}%` }}
          role="slider"
          tabIndex={0}
          aria-label="Budget"
          aria-valuemin={Math.ceil(scale.from)}
          aria-valuemax={Math.floor(scale.to)}
          aria-valuenow={budget_seconds}
          aria-valuetext={`${budget_seconds} seconds`}
          onKeyDown={step}
          onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
          onPointerMove={(event) => event.currentTarget.hasPointerCapture(event.pointerId) && drag(event)}
        >
          <span className={styles.flag} data-left={placeOf(budget_seconds, scale) > 0.8 || undefined}>
            budget {budget_seconds} s
          </span>
        </div>
      </div>
      <div className={`${styles.marks} tabular`} aria-hidden>
        {marksOn(scale).map((seconds) => (
          <span key={seconds} style={{ left: `${placeOf(seconds, scale) * 100}%` }}>
            {seconds < 1 ? `${seconds} s` : roughly(seconds)}
          </span>
        ))}
      </div>
    </div>
  );
}
