/**
 * Log records that replace lost lines. The wire format has no field for them, so a record is
 * recognised by its stream and the first word of its line. Only this file writes or reads the mark.
 */
const mark = 'dropped ';

/** `count` is null if the number of lost lines is unknown. */
export const lossLine = (count: number | null, cause: string): string =>
  `${mark}${count === null ? 'an unknown number of lines' : `${count} ${count === 1 ? 'line' : 'lines'}`}: ${cause}`;

export const isLossRecord = (stream: string, line: string): boolean => stream === 'agent' && line.startsWith(mark);
