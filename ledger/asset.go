package ledger

import (
	"strconv"
	"strings"

	"github.com/bojanz/currency"
)

// AssetScaleMax is the largest number of decimal digits that an asset may have: with it, an amount of
// AmountDigitsMax digits is a pure fraction.
const AssetScaleMax = AmountDigitsMax

// assetCodeBytesMax bounds an asset's code. ISO 4217 has three letters; points and tokens want a few more.
const assetCodeBytesMax = 16

// Asset is what an amount counts: a code and a scale, the number of decimal digits of one major unit. The zero Asset
// is not valid. Assets are comparable with ==; the same code with another scale is another asset.
type Asset struct {
	code  string
	scale uint8
}

// ParseAsset reads "CODE/SCALE" ("USD/2", "POINTS/0", "ETH/18") or a bare ISO 4217 code, which takes its ISO scale
// ("JPY" is JPY/0, "KWD" is KWD/3). A bare code that ISO 4217 does not know is refused, never guessed. The error is
// an *InvalidError.
//
// The ISO scales are those of ISO 4217, amendment list as shipped by github.com/bojanz/currency.
func ParseAsset(s string) (Asset, error) {
	code, scaleText, explicit := strings.Cut(s, "/")
	if err := checkAssetCode(code); err != nil {
		return Asset{}, err
	}
	if !explicit {
		scale, ok := currency.GetDigits(code)
		if !ok {
			return Asset{}, invalid("asset", "%q is not an ISO 4217 code: name its scale, as in %s/2", code, code)
		}
		return Asset{code: code, scale: scale}, nil
	}
	scale, err := strconv.ParseUint(scaleText, 10, 8)
	// The scale has one spelling: "USD/02" and "USD/+2" would be other names for USD/2.
	if err != nil || strconv.FormatUint(scale, 10) != scaleText || scale > AssetScaleMax {
		return Asset{}, invalid("asset", "the scale of %q must be a whole number from 0 to %d", s, AssetScaleMax)
	}
	return Asset{code: code, scale: uint8(scale)}, nil
}

func checkAssetCode(code string) error {
	if code == "" {
		return invalid("asset", "an asset is required, such as USD or POINTS/0")
	}
	if len(code) > assetCodeBytesMax {
		return invalid("asset", "the code of an asset has at most %d characters", assetCodeBytesMax)
	}
	for i := range len(code) {
		c := code[i]
		letter := 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || (c != '_' && (c < '0' || '9' < c))) {
			return invalid("asset", "%q: the code of an asset is capital letters, digits and _, a letter first", code)
		}
	}
	return nil
}

// Code is the asset's code without its scale: "USD".
func (a Asset) Code() string { return a.code }

// Scale is the number of decimal digits of one major unit: 2 for USD/2.
func (a Asset) Scale() int { return int(a.scale) }

// IsZero says whether a is the zero Asset, which is not valid.
func (a Asset) IsZero() bool { return a.code == "" }

// String is the canonical form, always with the scale: "USD/2".
func (a Asset) String() string {
	if a.IsZero() {
		return ""
	}
	return a.code + "/" + strconv.Itoa(int(a.scale))
}
