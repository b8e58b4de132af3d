/** `drain` and `undrain`: a node takes nothing new and is emptied; then it is set aside or taken down, as was asked. */
import { moveTo } from './move-to.ts';

const ends = { hold: 'set aside', retire: 'taken down for good' } as const;

export const drain = moveTo({
  to: 'draining',
  by: 'drain',
  says: ({ asked, shown }) =>
    `it takes nothing new; ${shown.occupancy === 'free' ? 'being empty' : 'once it is empty'} it is ${ends[asked.drain_then ?? 'hold']}`,
  set: ({ asked }) => ({ drain_then: asked.drain_then ?? 'hold' }),
});

export const undrain = moveTo({ to: 'ready', by: 'undrain', says: () => 'it takes work again' });
