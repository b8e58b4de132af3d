/** Makes the component of an icon from its outline. */
import { createElement, type ReactElement, type SVGProps } from 'react';

export interface IconProps extends Omit<SVGProps<SVGSVGElement>, 'stroke'> {
  /** Width and height in pixels. */
  size?: number;
  /** Width of the lines, in units of a grid of 24. */
  stroke?: number;
}

export type Icon = (props: IconProps) => ReactElement;

/** `dots` is the part of the drawing that is filled. */
export const icon =
  (lines: string, dots?: string): Icon =>
  ({ size = 24, stroke = 2, ...rest }) =>
    createElement(
      'svg',
      {
        ...{ width: size, height: size, viewBox: '0 0 24 24', fill: 'none' },
        ...{ stroke: 'currentColor', strokeWidth: stroke, strokeLinecap: 'round', strokeLinejoin: 'round' },
        ...rest,
      },
      createElement('path', { d: lines }),
      dots && createElement('path', { d: dots, fill: 'currentColor' }),
    );
