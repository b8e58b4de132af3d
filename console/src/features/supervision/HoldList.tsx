/** Lists the open holds of the brake, each with its reason, its end and a button that ends it. */
import { Button } from '@mantine/core';
import { toneStyle } from '../../ui/theme.ts';
import { Ago } from '../../ui/time/Ago.tsx';
import { Countdown } from '../../ui/time/Countdown.tsx';
import type { Action } from '../actions/action.ts';
import { resumeAction } from './brake-actions.ts';
import styles from './HoldList.module.css';
import { afterwardsWords, effectWords, type Hold } from './words.ts';

interface Props {
  holds: Hold[];
  /** Undefined for viewers. */
  onAction: ((action: Action) => void) | undefined;
}

export const HoldList = ({ holds, onAction }: Props) => (
  <ul className={styles.holds}>
    {holds.map((hold) => (
      <li key={hold.hold_id} className={styles.hold} style={toneStyle('held')}>
        <div className={styles.words}>
          <h3 className={styles.title}>
            {hold.rule} in {hold.scope} {hold.name}
          </h3>
          <p>{hold.reason}</p>
          <p className={styles.dim}>
            {effectWords[hold.effect]} Held for <Ago at={hold.since} asAge />; ends in{' '}
            <Countdown at={hold.held_until} />, {afterwardsWords[hold.effect]}.
          </p>
        </div>
        {onAction && (
          <Button
            color="red"
            variant="light"
            aria-label={`Resume ${hold.rule} in ${hold.scope} ${hold.name}`}
            onClick={() => onAction(resumeAction(hold))}
          >
            Resume
          </Button>
        )}
      </li>
    ))}
  </ul>
);
