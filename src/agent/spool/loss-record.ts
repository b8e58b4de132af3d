/**
 * Log records that stand for lost lines. The wire has no field for them, so a record is marked by
 * its stream and the first word of its line; only this file writes or reads the mark.
 */
const mark = 'dropped ';

/** `count` is null if it is unknown how many lines were lost. */
export const lossLine = (count: number | null, because: string): string =>
  `${mark}${count === null ? 'lines, nobody knows how many' : `${count} ${count === 1 ? 'line' : 'lines'}`}: ${because}`;

export const isLossRecord = (stream: string, line: string): boolean => stream === 'agent' && line.startsWith(mark);
